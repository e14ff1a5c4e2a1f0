//! Files and directories: what a well-behaved client gets.

use super::rig::Rig;

#[tokio::test]
async fn a_file_is_made_written_read_listed_and_deleted() {
    let rig = Rig::new().await;
    assert_eq!(rig.put("/docs/d?restype=directory", &[], b"").await.status, 201);
    rig.file("/docs/d/f", b"hello, share").await;
    let whole = rig.get("/docs/d/f", &[]).await;
    assert_eq!((whole.status, whole.text().as_str()), (200, "hello, share"));
    assert_eq!(whole.header("x-ms-type"), "File");
    let part = rig.get("/docs/d/f", &[("x-ms-range", "bytes=7-100")]).await;
    assert_eq!((part.status, part.text().as_str()), (206, "share"));
    assert_eq!(part.header("content-range"), "bytes 7-11/12");
    let head = rig.head("/docs/d/f").await;
    assert_eq!((head.status, head.header("content-length")), (200, "12"));
    let list = rig.get("/docs/d?restype=directory&comp=list", &[]).await.text();
    assert!(list.contains("<Name>f</Name><Properties><Content-Length>12</Content-Length>"), "{list}");
    assert_eq!(rig.delete("/docs/d?restype=directory").await.verdict(), (409, "DirectoryNotEmpty"));
    assert_eq!(rig.delete("/docs/d/f").await.status, 202);
    assert_eq!(rig.get("/docs/d/f", &[]).await.verdict(), (404, "ResourceNotFound"));
    assert_eq!(rig.delete("/docs/d?restype=directory").await.status, 202);
}

#[tokio::test]
async fn attributes_times_headers_and_metadata_come_back() {
    let rig = Rig::new().await;
    let headers = [
        ("x-ms-type", "file"),
        ("x-ms-content-length", "0"),
        ("x-ms-content-type", "text/plain"),
        ("x-ms-cache-control", "no-store"),
        ("x-ms-file-attributes", "Hidden|Archive"),
        ("x-ms-file-creation-time", "2020-01-02T03:04:05.0000006Z"),
        ("x-ms-file-last-write-time", "2021-01-02T03:04:05.7654321Z"),
        ("x-ms-meta-color", "red"),
    ];
    assert_eq!(rig.put("/docs/f", &headers, b"").await.status, 201);
    let head = rig.head("/docs/f").await;
    for (name, value) in [
        ("content-type", "text/plain"),
        ("cache-control", "no-store"),
        ("x-ms-file-attributes", "Hidden|Archive"),
        ("x-ms-file-creation-time", "2020-01-02T03:04:05.0000006Z"),
        ("x-ms-file-last-write-time", "2021-01-02T03:04:05.7654321Z"),
        ("x-ms-meta-color", "red"),
        ("x-ms-lease-state", "available"),
    ] {
        assert_eq!(head.header(name), value, "{name}: {head:?}");
    }
    let set = rig.put("/docs/f?comp=metadata", &[("x-ms-meta-size", "big")], b"").await;
    assert_eq!(set.status, 200, "{set:?}");
    let metadata = rig.get("/docs/f?comp=metadata", &[]).await;
    assert_eq!((metadata.header("x-ms-meta-size"), metadata.header("x-ms-meta-color")), ("big", ""));
    let change = [("x-ms-content-length", "100"), ("x-ms-file-attributes", "None")];
    assert_eq!(rig.put("/docs/f?comp=properties", &change, b"").await.status, 200);
    let head = rig.head("/docs/f").await;
    assert_eq!((head.header("content-length"), head.header("content-type")), ("100", "text/plain"));
    assert_eq!(head.header("x-ms-file-attributes"), "None");
}

#[tokio::test]
async fn a_read_only_file_stays_as_it_is_until_the_attribute_goes() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"keep").await;
    let set = |attributes: &'static str| [("x-ms-file-attributes", attributes)];
    assert_eq!(rig.put("/docs/f?comp=properties", &set("ReadOnly"), b"").await.status, 200);
    assert_eq!(rig.write("/docs/f", 0, b"lose").await.verdict(), (409, "ReadOnlyAttribute"));
    assert_eq!(rig.delete("/docs/f").await.verdict(), (409, "ReadOnlyAttribute"));
    assert_eq!(rig.put("/docs/f?comp=metadata", &[], b"").await.verdict(), (409, "ReadOnlyAttribute"));
    assert_eq!(rig.get("/docs/f", &[]).await.text(), "keep");
    assert_eq!(rig.put("/docs/f?comp=properties", &set("Archive"), b"").await.status, 200);
    assert_eq!(rig.write("/docs/f", 0, b"lose").await.status, 201);
}

#[tokio::test]
async fn ranges_are_listed_and_cleared_with_their_edges_zeroed() {
    let rig = Rig::new().await;
    rig.file("/docs/f", &[b'x'; 4096]).await;
    let clear = [("x-ms-write", "clear"), ("x-ms-range", "bytes=100-2999")];
    assert_eq!(rig.put("/docs/f?comp=range", &clear, b"").await.status, 201);
    let content = rig.get("/docs/f", &[]).await.body;
    assert!(content[..100].iter().all(|byte| *byte == b'x'));
    assert!(content[100..3000].iter().all(|byte| *byte == 0));
    assert!(content[3000..].iter().all(|byte| *byte == b'x'));
    let list = rig.get("/docs/f?comp=rangelist", &[]).await;
    assert_eq!((list.status, list.header("x-ms-content-length")), (200, "4096"));
    assert!(list.text().contains("<Range><Start>0</Start>"), "{}", list.text());
    // A file that was only made has nothing in it.
    let made = [("x-ms-type", "file"), ("x-ms-content-length", "1048576")];
    assert_eq!(rig.put("/docs/empty", &made, b"").await.status, 201);
    assert!(!rig.get("/docs/empty?comp=rangelist", &[]).await.text().contains("<Range>"));
    assert_eq!(rig.get("/docs/empty", &[("range", "bytes=0-9")]).await.body, [0; 10]);
}

#[tokio::test]
async fn a_new_file_may_bring_its_first_bytes() {
    let rig = Rig::new().await;
    let headers = [("x-ms-type", "file"), ("x-ms-content-length", "8")];
    assert_eq!(rig.put("/docs/f", &headers, b"start").await.status, 201);
    assert_eq!(rig.get("/docs/f", &[]).await.body, b"start\0\0\0");
    let old = [("x-ms-type", "file"), ("x-ms-content-length", "8"), ("x-ms-version", "2024-11-04")];
    assert_eq!(rig.put("/docs/g", &old, b"start").await.verdict(), (400, "InvalidHeaderValue"));
}

#[tokio::test]
async fn lists_are_paged_and_say_what_was_asked_for() {
    let rig = Rig::new().await;
    for name in ["a1", "a2", "b1"] {
        rig.file(&format!("/docs/{name}"), b"x").await;
    }
    assert_eq!(rig.put("/docs/a3?restype=directory", &[], b"").await.status, 201);
    let list = |query: String| {
        let rig = &rig;
        async move { rig.get(&format!("/docs?restype=directory&comp=list{query}"), &[]).await.text() }
    };
    let first = list("&prefix=a&maxresults=2".into()).await;
    assert!(first.contains("<Name>a1</Name>") && first.contains("<Name>a2</Name>"), "{first}");
    let next = first.split("<NextMarker>").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let second = list(format!("&prefix=a&maxresults=2&marker={next}")).await;
    assert!(second.contains("<Directory>") && second.contains("<Name>a3</Name>"), "{second}");
    assert!(!second.contains("<Name>a1</Name>") && !second.contains("<Name>b1</Name>"), "{second}");
    assert!(second.ends_with("<NextMarker /></EnumerationResults>"), "{second}");
    let full = list("&include=Timestamps,ETag,Attributes,PermissionKey".into()).await;
    for element in ["<CreationTime>", "<Etag>", "<Attributes>Archive</Attributes>", "<PermissionKey>"] {
        assert!(full.contains(element), "{element} in {full}");
    }
    assert!(!list(String::new()).await.contains("<CreationTime>"));
}

#[tokio::test]
async fn a_file_is_renamed_over_another_only_when_asked_to() {
    let rig = Rig::new().await;
    rig.file("/docs/a", b"new").await;
    rig.file("/docs/b", b"old").await;
    let source = format!("http://127.0.0.1/{}/docs/a", leasefs::rest::auth::DEVELOPMENT_ACCOUNT);
    let rename = [("x-ms-file-rename-source", source.as_str())];
    assert_eq!(rig.put("/docs/b?comp=rename", &rename, b"").await.verdict(), (409, "ResourceAlreadyExists"));
    let replace = [rename[0], ("x-ms-file-rename-replace-if-exists", "true")];
    let done = rig.put("/docs/b?comp=rename", &replace, b"").await;
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(rig.get("/docs/b", &[]).await.text(), "new");
    assert_eq!(rig.head("/docs/a").await.status, 404);
    let elsewhere = [("x-ms-file-rename-source", "http://example.com/devstoreaccount1/docs/b")];
    assert_eq!(rig.put("/docs/c?comp=rename", &elsewhere, b"").await.verdict(), (400, "InvalidHeaderValue"));
}

#[tokio::test]
async fn files_are_copied_inside_the_service() {
    let rig = Rig::new().await;
    rig.file("/docs/a", b"content").await;
    let account = leasefs::rest::auth::DEVELOPMENT_ACCOUNT;
    let source = format!("http://127.0.0.1/{account}/docs/a");
    let done = rig.put("/docs/b", &[("x-ms-copy-source", &source)], b"").await;
    assert_eq!((done.status, done.header("x-ms-copy-status")), (202, "success"), "{done:?}");
    let copy = rig.get("/docs/b", &[]).await;
    assert_eq!((copy.text().as_str(), copy.header("x-ms-copy-id")), ("content", done.header("x-ms-copy-id")));
    let missing = format!("http://127.0.0.1/{account}/docs/none");
    let refused = rig.put("/docs/c", &[("x-ms-copy-source", &missing)], b"").await;
    assert_eq!(refused.verdict(), (404, "CannotVerifyCopySource"));
    let abort = [("x-ms-copy-action", "abort")];
    assert_eq!(
        rig.put("/docs/b?comp=copy&copyid=x", &abort, b"").await.verdict(),
        (409, "NoPendingCopyOperation")
    );
    let headers = [
        ("x-ms-copy-source", source.as_str()),
        ("x-ms-write", "update"),
        ("x-ms-range", "bytes=0-3"),
        ("x-ms-source-range", "bytes=3-6"),
    ];
    let done = rig.put("/docs/b?comp=range", &headers, b"").await;
    assert_eq!(done.status, 201, "{done:?}");
    assert_eq!(rig.get("/docs/b", &[]).await.text(), "tentent");
}

#[tokio::test]
async fn a_lease_keeps_other_writers_out() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"leased").await;
    let (a, b) = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222");
    let acquire =
        [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "-1"), ("x-ms-proposed-lease-id", a)];
    let leased = rig.put("/docs/f?comp=lease", &acquire, b"").await;
    assert_eq!((leased.status, leased.header("x-ms-lease-id")), (201, a), "{leased:?}");
    assert_eq!(rig.write("/docs/f", 0, b"x").await.verdict(), (412, "LeaseIdMissing"));
    let with = |id| [("x-ms-lease-id", id), ("x-ms-write", "update"), ("x-ms-range", "bytes=0-0")];
    let wrong = rig.put("/docs/f?comp=range", &with(b), b"x").await;
    assert_eq!(wrong.verdict(), (412, "LeaseIdMismatchWithFileOperation"));
    assert_eq!(rig.put("/docs/f?comp=range", &with(a), b"x").await.status, 201);
    assert_eq!(rig.delete("/docs/f").await.verdict(), (412, "LeaseIdMissing"));
    assert_eq!(rig.head("/docs/f").await.header("x-ms-lease-duration"), "infinite");
    let finite = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "30")];
    assert_eq!(rig.put("/docs/f?comp=lease", &finite, b"").await.verdict(), (400, "InvalidHeaderValue"));
    let renew = [("x-ms-lease-action", "renew"), ("x-ms-lease-id", a)];
    assert_eq!(rig.put("/docs/f?comp=lease", &renew, b"").await.verdict(), (400, "InvalidHeaderValue"));
    let broken = rig.put("/docs/f?comp=lease", &[("x-ms-lease-action", "break")], b"").await;
    assert_eq!((broken.status, broken.header("x-ms-lease-time")), (202, "0"));
    assert_eq!(rig.delete("/docs/f").await.status, 202);
}
