//! Shares and the service: settings, quota, policies, leases, snapshots, permissions, lists.

use super::rig::Rig;

#[tokio::test]
async fn a_share_has_properties_metadata_and_a_quota() {
    let rig = Rig::new().await;
    let made = [("x-ms-share-quota", "7"), ("x-ms-access-tier", "hot"), ("x-ms-meta-a", "b")];
    assert_eq!(rig.put("/more?restype=share", &made, b"").await.status, 201);
    assert_eq!(rig.put("/more?restype=share", &[], b"").await.verdict(), (409, "ShareAlreadyExists"));
    let share = rig.get("/more?restype=share", &[]).await;
    assert_eq!((share.header("x-ms-share-quota"), share.header("x-ms-access-tier")), ("7", "Hot"));
    assert_eq!((share.header("x-ms-meta-a"), share.header("x-ms-enabled-protocols")), ("b", "SMB"));
    let set = [("x-ms-share-quota", "9")];
    assert_eq!(rig.put("/more?restype=share&comp=properties", &set, b"").await.status, 200);
    assert_eq!(rig.put("/more?restype=share&comp=metadata", &[("x-ms-meta-c", "d")], b"").await.status, 200);
    let share = rig.head("/more?restype=share").await;
    assert_eq!((share.header("x-ms-share-quota"), share.header("x-ms-access-tier")), ("9", "Hot"));
    assert_eq!((share.header("x-ms-meta-a"), share.header("x-ms-meta-c")), ("", "d"));
    for quota in ["0", "-1", "x", "102401"] {
        let refused =
            rig.put("/more?restype=share&comp=properties", &[("x-ms-share-quota", quota)], b"").await;
        assert_eq!(refused.verdict(), (400, "InvalidHeaderValue"), "{quota}");
    }
    rig.file("/more/f", b"12345").await;
    let stats = rig.get("/more?restype=share&comp=stats", &[]).await.text();
    assert!(stats.contains("<ShareUsageBytes>5</ShareUsageBytes>"), "{stats}");
    assert_eq!(rig.delete("/more?restype=share").await.status, 202);
    assert_eq!(rig.get("/more/f", &[]).await.verdict(), (404, "ShareNotFound"));
}

#[tokio::test]
async fn what_is_for_nfs_shares_is_refused() {
    let rig = Rig::new().await;
    let nfs = [("x-ms-enabled-protocols", "NFS")];
    assert_eq!(rig.put("/nfs?restype=share", &nfs, b"").await.verdict(), (501, "APINotImplemented"));
    for query in ["restype=hardlink", "restype=symboliclink"] {
        let refused = rig.put(&format!("/docs/f?{query}"), &[], b"").await;
        assert_eq!(refused.verdict(), (501, "APINotImplemented"), "{query}");
        assert!(refused.text().contains("not supported"), "{refused:?}");
    }
}

#[tokio::test]
async fn a_leased_share_is_deleted_by_its_holder_only() {
    let rig = Rig::new().await;
    let acquire = [("x-ms-lease-action", "acquire"), ("x-ms-lease-duration", "15")];
    let leased = rig.put("/docs?restype=share&comp=lease", &acquire, b"").await;
    assert_eq!(leased.status, 201, "{leased:?}");
    assert_eq!(rig.delete("/docs?restype=share").await.verdict(), (412, "LeaseIdMissing"));
    let wrong = [("x-ms-lease-id", "22222222-2222-2222-2222-222222222222")];
    let refused = rig.call("DELETE", "/docs?restype=share", &wrong, b"").await;
    assert_eq!(refused.verdict(), (412, "LeaseIdMismatchWithShareOperation"));
    let right = [("x-ms-lease-id", leased.header("x-ms-lease-id"))];
    assert_eq!(rig.call("DELETE", "/docs?restype=share", &right, b"").await.status, 202);
}

#[tokio::test]
async fn a_snapshot_keeps_a_share_as_it_was() {
    let rig = Rig::new().await;
    rig.file("/docs/f", b"before").await;
    let taken = rig.put("/docs?restype=share&comp=snapshot", &[("x-ms-meta-why", "test")], b"").await;
    assert_eq!(taken.status, 201, "{taken:?}");
    let id = taken.header("x-ms-snapshot").to_owned();
    assert_eq!(rig.write("/docs/f", 0, b"AFTER!").await.status, 201);
    assert_eq!(rig.get(&format!("/docs/f?sharesnapshot={id}"), &[]).await.text(), "before");
    assert_eq!(rig.get("/docs/f", &[]).await.text(), "AFTER!");
    let share = rig.get(&format!("/docs?restype=share&sharesnapshot={id}"), &[]).await;
    assert_eq!((share.status, share.header("x-ms-meta-why")), (200, "test"));
    let list = rig.get(&format!("/docs?restype=directory&comp=list&sharesnapshot={id}"), &[]).await.text();
    assert!(list.contains("<Name>f</Name>") && list.contains("ShareSnapshot="), "{list}");
    let diff = rig.get(&format!("/docs/f?comp=rangelist&prevsharesnapshot={id}"), &[]).await;
    assert!(diff.text().contains("<Range><Start>0</Start><End>5</End>"), "{}", diff.text());
    let headers = [("x-ms-write", "update"), ("x-ms-range", "bytes=0-0")];
    let refused = rig.put(&format!("/docs/f?comp=range&sharesnapshot={id}"), &headers, b"x").await;
    assert_eq!(refused.verdict(), (400, "InvalidQueryParameterValue"));
    let never = rig.get("/docs/f?sharesnapshot=2020-01-01T00:00:00.0000000Z", &[]).await;
    assert_eq!(never.verdict(), (404, "ShareSnapshotNotFound"));
    assert_eq!(rig.delete("/docs?restype=share").await.verdict(), (409, "ShareHasSnapshots"));
    assert_eq!(rig.delete(&format!("/docs?restype=share&sharesnapshot={id}")).await.status, 202);
    assert_eq!(rig.delete("/docs?restype=share").await.status, 202);
}

#[tokio::test]
async fn a_list_of_shares_with_snapshots_keeps_to_its_pages() {
    let rig = Rig::new().await;
    assert_eq!(rig.put("/more?restype=share", &[], b"").await.status, 201);
    for _ in 0..3 {
        assert_eq!(rig.put("/docs?restype=share&comp=snapshot", &[], b"").await.status, 201);
    }
    let (mut marker, mut seen) = (String::new(), Vec::new());
    loop {
        let target = format!("/?comp=list&include=snapshots,metadata&maxresults=2&marker={marker}");
        let page = rig.get(&target, &[]).await.text();
        let lines: Vec<&str> = page.split("<Share>").skip(1).collect();
        assert!(lines.len() <= 2, "{page}");
        for line in lines {
            let name = line.split("<Name>").nth(1).unwrap().split('<').next().unwrap();
            seen.push((name.to_owned(), line.contains("<Snapshot>")));
        }
        match page.split("<NextMarker>").nth(1) {
            Some(next) => marker = next.split('<').next().unwrap().to_owned(),
            None => break,
        }
    }
    let expected = [("docs", true), ("docs", true), ("docs", true), ("docs", false), ("more", false)];
    assert_eq!(seen, expected.map(|(name, snapshot)| (name.to_owned(), snapshot)));
}

#[tokio::test]
async fn permissions_are_kept_under_keys() {
    let rig = Rig::new().await;
    let sddl = "O:SYG:SYD:(A;;FA;;;SY)";
    let body = format!("{{\"permission\": \"{sddl}\"}}");
    let made = rig.put("/docs?restype=share&comp=filepermission", &[], body.as_bytes()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let key = made.header("x-ms-file-permission-key").to_owned();
    let by_key = [("x-ms-file-permission-key", key.as_str())];
    let read = rig.get("/docs?restype=share&comp=filepermission", &by_key).await;
    assert!(read.text().contains(sddl), "{read:?}");
    let new = [("x-ms-type", "file"), ("x-ms-content-length", "0"), ("x-ms-file-permission", sddl)];
    let file = rig.put("/docs/f", &new, b"").await;
    assert_eq!(file.header("x-ms-file-permission-key"), key);
    assert_eq!(rig.head("/docs/f").await.header("x-ms-file-permission-key"), key);
    // What nobody gave a permission has one too, and it can be read.
    rig.file("/docs/g", b"").await;
    let inherited = rig.head("/docs/g").await.header("x-ms-file-permission-key").to_owned();
    let by_key = [("x-ms-file-permission-key", inherited.as_str())];
    assert_eq!(rig.get("/docs?restype=share&comp=filepermission", &by_key).await.status, 200);
    for key in ["1*2", "nonsense"] {
        let refused =
            rig.get("/docs?restype=share&comp=filepermission", &[("x-ms-file-permission-key", key)]).await;
        assert_eq!(refused.verdict(), (400, "FileInvalidPermissionKey"), "{key}");
    }
}

#[tokio::test]
async fn the_service_keeps_its_settings_and_tells_browsers() {
    let rig = Rig::new().await;
    let cors = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://page</AllowedOrigins>\
                <AllowedMethods>GET</AllowedMethods><MaxAgeInSeconds>5</MaxAgeInSeconds><ExposedHeaders>x-ms-*\
                </ExposedHeaders><AllowedHeaders>*</AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";
    assert_eq!(rig.put("/?restype=service&comp=properties", &[], cors.as_bytes()).await.status, 202);
    let read = rig.get("/?restype=service&comp=properties", &[]).await.text();
    assert!(read.contains("http://page") && read.contains("<HourMetrics>"), "{read}");
    let asked = [("origin", "http://page"), ("access-control-request-method", "GET")];
    let told = rig.call("OPTIONS", "/docs/f", &asked, b"").await;
    assert_eq!((told.status, told.header("access-control-allow-origin")), (200, "http://page"));
    let logging = "<StorageServiceProperties><Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read>\
                   <Write>false</Write></Logging></StorageServiceProperties>";
    let refused = rig.put("/?restype=service&comp=properties", &[], logging.as_bytes()).await;
    assert_eq!(refused.verdict(), (400, "UnsupportedXmlNode"));
}

#[tokio::test]
async fn a_quota_is_a_limit() {
    let rig = Rig::new().await;
    assert_eq!(rig.put("/small?restype=share", &[("x-ms-share-quota", "1")], b"").await.status, 201);
    let make = |size: &'static str| [("x-ms-type", "file"), ("x-ms-content-length", size)];
    let (large, much) = ("700000000", "2000000000");
    let full = (400, "ShareSizeLimitReached");
    assert_eq!(rig.put("/small/a", &make(much), b"").await.verdict(), full);
    assert_eq!(rig.put("/small/a", &make(large), b"").await.status, 201);
    assert_eq!(rig.put("/small/b", &make(large), b"").await.verdict(), full);
    // What is replaced makes room for what replaces it.
    assert_eq!(rig.put("/small/a", &make(large), b"").await.status, 201);
    let source = format!("http://127.0.0.1/{}/small/a", leasefs::rest::auth::DEVELOPMENT_ACCOUNT);
    assert_eq!(rig.put("/small/b", &[("x-ms-copy-source", &source)], b"").await.verdict(), full);
    let resize = rig.put("/small/a?comp=properties", &[("x-ms-content-length", much)], b"").await;
    assert_eq!(resize.verdict(), full);
    assert_eq!(rig.head("/small/a").await.header("content-length"), large);
    assert_eq!(rig.head("/small/b").await.status, 404);
}

/// The bound holds for calls at once, and what is deleted, cut or replaced makes room at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_exact() {
    let rig = Rig::new().await;
    assert_eq!(rig.put("/small?restype=share", &[("x-ms-share-quota", "1")], b"").await.status, 201);
    let third = (1_u64 << 30) / 3;
    let make = async |name: &str, size: u64| {
        let headers = [("x-ms-type", "file"), ("x-ms-content-length", &*size.to_string())]
            .map(|(name, value)| (name, value.to_owned()));
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let reply = rig.put(&format!("/small/{name}"), &headers, b"").await;
        assert!(reply.status == 201 || reply.verdict() == (400, "ShareSizeLimitReached"), "{reply:?}");
        reply.status == 201
    };
    for round in 0..5 {
        let names: Vec<String> = (0..12).map(|number| format!("f{round}-{number}")).collect();
        let made = futures_util::future::join_all(names.iter().map(|name| make(name, third))).await;
        assert_eq!(made.iter().filter(|made| **made).count(), 3, "{made:?}");
        let made: Vec<&String> =
            names.iter().zip(made).filter(|(_, made)| *made).map(|(name, _)| name).collect();
        // One byte is left.
        assert!(!make("more", 2).await && make("more", 1).await);
        assert_eq!(rig.delete("/small/more").await.status, 202);
        assert!(make("again", 1).await);
        // A smaller one in its place, and then there is room for the difference.
        assert!(make(made[0], third - 10).await && !make("more", 11).await && make("more", 10).await);
        let cut = [("x-ms-content-length", "0")];
        assert_eq!(rig.put(&format!("/small/{}?comp=properties", made[1]), &cut, b"").await.status, 200);
        assert!(make("more2", third).await);
        for name in made.into_iter().map(String::as_str).chain(["again", "more", "more2"]) {
            assert_eq!(rig.delete(&format!("/small/{name}")).await.status, 202);
        }
    }
}
