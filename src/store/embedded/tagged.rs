//! Finding blobs by their tags: a walk over the names, bounded per call.
//!
//! There is no index of tags: keeping one would cost every write something, and a search is rare. A walk looks at
//! about half a million blobs a second.

use crate::store::{ContainerName, Result, TagExpression, TaggedBlob, TaggedPage};

use super::EmbeddedStore;
use super::walk::Walk;

/// Blobs looked at in one call.
const LOOKS_MAX: usize = 50_000;

/// Containers looked at in one step.
const CONTAINERS_STEP: usize = 64;

impl EmbeddedStore {
    pub(super) fn blobs_tagged(
        &self,
        container: Option<&ContainerName>,
        tags: &TagExpression,
        marker: Option<&str>,
        max: usize,
    ) -> Result<TaggedPage> {
        let (first, mut from) =
            marker.map_or(("", ""), |marker| marker.split_once('\0').unwrap_or((marker, "")));
        let mut search = Search { tags, max: max.max(1), looks: 0, page: TaggedPage::default() };
        if let Some(container) = container {
            self.container(container)?;
            self.search_container(&mut search, container, from)?;
            return Ok(search.page);
        }
        let mut next = Some(first.to_owned());
        while let Some(at) = next {
            let (containers, more) = self.container_list("", Some(&at), CONTAINERS_STEP)?;
            for found in containers {
                let from = if found.name.as_str() == first { std::mem::take(&mut from) } else { "" };
                let wanted = tags.container().is_none_or(|name| name == found.name.as_str());
                if wanted && self.search_container(&mut search, &found.name, from)? {
                    return Ok(search.page);
                }
            }
            next = more;
        }
        Ok(search.page)
    }

    /// Whether the page is full, or enough blobs were looked at.
    fn search_container(
        &self,
        search: &mut Search<'_>,
        container: &ContainerName,
        from: &str,
    ) -> Result<bool> {
        let Some(record) = self.find_container(container)? else { return Ok(false) };
        let view = self.kv.view()?;
        for blob in Walk::start(&view, record.root, from.as_bytes())? {
            let blob = blob?;
            if search.looks == LOOKS_MAX || search.page.blobs.len() == search.max {
                search.page.next = Some(format!("{container}\0{}", blob.name));
                return Ok(true);
            }
            search.looks += 1;
            let tags = blob.entry()?.properties.tags.clone();
            if !tags.is_empty() && search.tags.holds(container.as_str(), &tags) {
                search.page.blobs.push(TaggedBlob { container: container.clone(), name: blob.name, tags });
            }
        }
        Ok(false)
    }
}

struct Search<'a> {
    tags: &'a TagExpression,
    max: usize,
    looks: usize,
    page: TaggedPage,
}
