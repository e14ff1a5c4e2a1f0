//! What makes no sense: the service's own status and code, and nothing is changed.

use super::rig::Rig;

/// Method, target, headers, body, status, code.
type Case =
    (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static [u8], u16, &'static str);

const FILE: (&str, &str) = ("x-ms-type", "file");
const EMPTY: (&str, &str) = ("x-ms-content-length", "0");
const UPDATE: (&str, &str) = ("x-ms-write", "update");

const CASES: &[Case] = &[
    // Names.
    ("PUT", "/docs/a*b", &[FILE, EMPTY], b"", 400, "InvalidResourceName"),
    ("PUT", "/docs/con", &[FILE, EMPTY], b"", 400, "InvalidResourceName"),
    ("PUT", "/docs/a%3Ab?restype=directory", &[], b"", 400, "InvalidResourceName"),
    ("PUT", "/docs/a%01b", &[FILE, EMPTY], b"", 400, "InvalidResourceName"),
    ("GET", "/docs/a%3Fb", &[], b"", 400, "InvalidResourceName"),
    ("PUT", "/docs/x/../f", &[FILE, EMPTY], b"", 400, "InvalidResourceName"),
    ("PUT", "/docs/.leasefs/f", &[FILE, EMPTY], b"", 400, "InvalidResourceName"),
    ("PUT", "/Bad_Share?restype=share", &[], b"", 400, "InvalidResourceName"),
    ("PUT", "/docs/%FF", &[FILE, EMPTY], b"", 400, "InvalidUri"),
    // Parents and kinds.
    ("PUT", "/docs/none/f", &[FILE, EMPTY], b"", 404, "ParentNotFound"),
    ("PUT", "/docs/none/d?restype=directory", &[], b"", 404, "ParentNotFound"),
    ("PUT", "/docs/dir", &[FILE, EMPTY], b"", 409, "ResourceTypeMismatch"),
    ("GET", "/docs/dir", &[], b"", 409, "ResourceTypeMismatch"),
    ("GET", "/docs/f?restype=directory", &[], b"", 409, "ResourceTypeMismatch"),
    ("PUT", "/docs/dir?restype=directory", &[], b"", 409, "ResourceAlreadyExists"),
    ("GET", "/nowhere/f", &[], b"", 404, "ShareNotFound"),
    ("GET", "/docs/none", &[], b"", 404, "ResourceNotFound"),
    // Create.
    ("PUT", "/docs/new", &[EMPTY], b"", 400, "MissingRequiredHeader"),
    ("PUT", "/docs/new", &[FILE], b"", 400, "MissingRequiredHeader"),
    ("PUT", "/docs/new", &[("x-ms-type", "blob"), EMPTY], b"", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/new", &[FILE, ("x-ms-content-length", "-1")], b"", 400, "OutOfRangeInput"),
    ("PUT", "/docs/new", &[FILE, ("x-ms-content-length", "many")], b"", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/new", &[FILE, ("x-ms-content-length", "4398046511105")], b"", 400, "OutOfRangeInput"),
    ("PUT", "/docs/new", &[FILE, EMPTY], b"body", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/new", &[FILE, EMPTY, ("x-ms-file-attributes", "Shiny")], b"", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/new", &[FILE, EMPTY, ("x-ms-file-creation-time", "soon")], b"", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/new", &[FILE, EMPTY, ("x-ms-file-permission", "?")], b"", 400, "FileInvalidPermission"),
    ("PUT", "/docs/new", &[FILE, EMPTY, ("x-ms-mode", "0777")], b"", 400, "UnsupportedHeader"),
    ("PUT", "/docs/new", &[FILE, EMPTY, ("if-match", "*")], b"", 400, "ConditionHeadersNotSupported"),
    ("PUT", "/docs/new", &[FILE, EMPTY, ("x-ms-meta-1a", "x")], b"", 400, "InvalidMetadata"),
    // Ranges.
    ("PUT", "/docs/f?comp=range", &[UPDATE], b"x", 400, "MissingRequiredHeader"),
    ("PUT", "/docs/f?comp=range", &[("x-ms-range", "bytes=0-0")], b"x", 400, "MissingRequiredHeader"),
    (
        "PUT",
        "/docs/f?comp=range",
        &[("x-ms-write", "burn"), ("x-ms-range", "bytes=0-0")],
        b"x",
        400,
        "InvalidHeaderValue",
    ),
    ("PUT", "/docs/f?comp=range", &[UPDATE, ("x-ms-range", "bytes=0-")], b"x", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/f?comp=range", &[UPDATE, ("x-ms-range", "bytes=3-2")], b"x", 416, "InvalidRange"),
    ("PUT", "/docs/f?comp=range", &[UPDATE, ("x-ms-range", "bytes=0-1")], b"x", 400, "InvalidHeaderValue"),
    (
        "PUT",
        "/docs/f?comp=range",
        &[UPDATE, ("x-ms-range", "bytes=0-4194304")],
        b"x",
        413,
        "RequestBodyTooLarge",
    ),
    ("PUT", "/docs/f?comp=range", &[UPDATE, ("x-ms-range", "bytes=4-4")], b"x", 416, "InvalidRange"),
    (
        "PUT",
        "/docs/f?comp=range",
        &[UPDATE, ("x-ms-range", "bytes=18446744073709551615-18446744073709551615")],
        b"x",
        416,
        "InvalidRange",
    ),
    (
        "PUT",
        "/docs/f?comp=range",
        &[("x-ms-write", "clear"), ("x-ms-range", "bytes=0-0")],
        b"x",
        400,
        "InvalidHeaderValue",
    ),
    (
        "PUT",
        "/docs/f?comp=range",
        &[("x-ms-write", "clear"), ("x-ms-range", "bytes=0-511")],
        b"",
        416,
        "InvalidRange",
    ),
    (
        "PUT",
        "/docs/f?comp=range",
        &[UPDATE, ("x-ms-range", "bytes=0-0"), ("content-md5", "AAAAAAAAAAAAAAAAAAAAAA==")],
        b"x",
        400,
        "Md5Mismatch",
    ),
    (
        "PUT",
        "/docs/f?comp=range",
        &[UPDATE, ("x-ms-range", "bytes=0-0"), ("content-md5", "?")],
        b"x",
        400,
        "InvalidMd5",
    ),
    (
        "PUT",
        "/docs/f?comp=range",
        &[UPDATE, ("x-ms-range", "bytes=0-0"), ("x-ms-lease-id", "mine")],
        b"x",
        400,
        "InvalidHeaderValue",
    ),
    ("GET", "/docs/f", &[("x-ms-range", "bytes=4-")], b"", 416, "InvalidRange"),
    ("GET", "/docs/f", &[("x-ms-range", "lines=1-2")], b"", 400, "InvalidHeaderValue"),
    ("GET", "/docs/f", &[("x-ms-range-get-content-md5", "true")], b"", 400, "InvalidHeaderValue"),
    // Lists, leases, handles.
    ("GET", "/docs?restype=directory&comp=list&maxresults=0", &[], b"", 400, "OutOfRangeQueryParameterValue"),
    ("GET", "/docs?restype=directory&comp=list&maxresults=x", &[], b"", 400, "InvalidQueryParameterValue"),
    (
        "GET",
        "/docs?restype=directory&comp=list&include=Everything",
        &[],
        b"",
        400,
        "InvalidQueryParameterValue",
    ),
    ("GET", "/?comp=list&include=secrets", &[], b"", 400, "InvalidQueryParameterValue"),
    ("PUT", "/docs/f?comp=lease", &[], b"", 400, "MissingRequiredHeader"),
    ("PUT", "/docs/f?comp=lease", &[("x-ms-lease-action", "steal")], b"", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/f?comp=forceclosehandles", &[], b"", 400, "MissingRequiredHeader"),
    ("PUT", "/docs/f?comp=forceclosehandles", &[("x-ms-handle-id", "none")], b"", 400, "InvalidHeaderValue"),
    ("GET", "/docs/f?comp=listhandles&marker=x", &[], b"", 400, "InvalidQueryParameterValue"),
    // Operations.
    ("PUT", "/docs/f?comp=nonsense", &[], b"", 400, "InvalidQueryParameterValue"),
    ("POST", "/docs/f", &[], b"", 405, "UnsupportedHttpVerb"),
    ("PUT", "/docs?restype=share&comp=undelete", &[], b"", 501, "APINotImplemented"),
    ("GET", "/docs", &[], b"", 400, "MissingRequiredQueryParameter"),
    ("PUT", "/docs?restype=share&comp=acl", &[], b"<broken", 400, "InvalidXmlDocument"),
    ("PUT", "/docs?restype=share&comp=filepermission", &[], b"{}", 400, "InvalidInput"),
    ("PUT", "/docs/c", &[("x-ms-copy-source", "not a url")], b"", 400, "InvalidHeaderValue"),
    ("PUT", "/docs/c", &[("x-ms-copy-source", "http://192.0.2.1/a/b")], b"", 403, "CannotVerifyCopySource"),
    ("PUT", "/docs/f", &[FILE, EMPTY, ("x-ms-version", "tomorrow")], b"", 400, "InvalidHeaderValue"),
];

#[tokio::test]
async fn what_makes_no_sense_gets_the_services_code_and_changes_nothing() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"safe").await;
    assert_eq!(rig.put("/docs/dir?restype=directory", &[], b"").await.status, 201);
    for (method, target, headers, body, status, code) in CASES {
        let reply = rig.call(method, target, headers, body).await;
        assert_eq!(reply.verdict(), (*status, *code), "{method} {target} {headers:?}: {}", reply.text());
    }
    let list = rig.get("/docs?restype=directory&comp=list", &[]).await.text();
    assert_eq!(list.matches("<Name>").count(), 2, "{list}");
    assert_eq!(rig.get("/docs/f", &[]).await.text(), "safe");
}

#[tokio::test]
async fn a_body_longer_than_a_range_may_be_is_refused_unread() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"safe").await;
    let long = vec![0; 4 * 1024 * 1024 + 1];
    let headers = [UPDATE, ("x-ms-range", "bytes=0-4194304")];
    let refused = rig.put("/docs/f?comp=range", &headers, &long).await;
    assert_eq!(refused.verdict(), (413, "RequestBodyTooLarge"));
}

#[tokio::test]
async fn old_and_future_versions_are_served() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"12345").await;
    for version in ["2015-02-21", "2019-02-02", "2021-06-08", "2026-06-06", "2099-01-01"] {
        let read = rig.get("/docs/f", &[("x-ms-version", version)]).await;
        assert_eq!((read.status, read.text().as_str()), (200, "12345"), "{version}");
    }
    let old = rig.get("/docs?restype=share&comp=stats", &[("x-ms-version", "2017-04-17")]).await.text();
    assert!(old.contains("<ShareUsage>1</ShareUsage>"), "{old}");
    let list = "/docs?restype=directory&comp=list";
    assert!(!rig.get(list, &[("x-ms-version", "2019-12-12")]).await.text().contains("<DirectoryId>"));
    let newer = [("x-ms-file-request-intent", "backup"), ("x-ms-allow-trailing-dot", "true")];
    assert_eq!(rig.get("/docs/f", &newer).await.status, 200);
}

#[tokio::test]
async fn dots_at_the_end_of_a_name_count_only_when_they_are_meant() {
    let rig = Rig::new().await;
    rig.file("/docs/f...", b"trimmed").await;
    assert_eq!(rig.get("/docs/f", &[]).await.text(), "trimmed");
    let dots = ("x-ms-allow-trailing-dot", "true");
    assert_eq!(rig.get("/docs/f...", &[dots]).await.verdict(), (404, "ResourceNotFound"));
    assert_eq!(rig.put("/docs/g.", &[FILE, EMPTY, dots], b"").await.status, 201);
    assert_eq!(rig.head("/docs/g").await.verdict(), (404, "ResourceNotFound"));
    assert_eq!(rig.get("/docs/g.", &[dots]).await.status, 200);
}
