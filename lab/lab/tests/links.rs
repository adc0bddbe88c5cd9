//! Every relative link of every Markdown page leads to a file, and its anchor to a heading there.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Everything that a page links to, with the line of each link, and the anchors of its headings.
#[derive(Default)]
struct Page {
    links: Vec<(usize, String)>,
    anchors: Vec<String>,
}

impl Page {
    fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut heading: Option<String> = None;
        let mut seen: HashMap<String, u32> = HashMap::new();
        for (event, place) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    let line = 1 + text[..place.start].matches('\n').count();
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let anchor = anchor(&heading.take().unwrap_or_default());
                    let before = seen.entry(anchor.clone()).or_default();
                    page.anchors.push(if *before == 0 { anchor } else { format!("{anchor}-{before}") });
                    *before += 1;
                }
                Event::Text(words) | Event::Code(words) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&words);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Links of `pages` that lead nowhere: one line each, with the place of the link.
fn broken(root: &Path, pages: &BTreeMap<PathBuf, Page>) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, page) in pages {
        for (line, link) in &page.links {
            let mut problem = |what: &str| broken.push(format!("{}:{line}: {link}: {what}", path.display()));
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (file, anchor) =
                link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
            let target = if file.is_empty() { Some(path.clone()) } else { joined(path, file) };
            let Some(target) = target.filter(|target| pages.contains_key(target) || root.join(target).exists()) else {
                problem("no such file");
                continue;
            };
            if let Some(anchor) = anchor
                && !pages.get(&target).is_some_and(|page| page.anchors.iter().any(|known| known == anchor))
            {
                problem("no such heading");
            }
        }
    }
    broken
}

/// What `link` on the page `path` means, from the root of the project; `None` outside of it.
fn joined(path: &Path, link: &str) -> Option<PathBuf> {
    let mut target = path.parent()?.to_owned();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if !target.pop() {
                    return None;
                }
            }
            name => target.push(name),
        }
    }
    Some(target)
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Files of the project, from its root; not what is built or produced here, and nothing hidden.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder of the project") {
        let entry = entry.expect("a folder of the project");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        let path = folder.join(&name);
        // A link is a file, wherever it leads.
        if !entry.file_type().expect("it is there").is_dir() {
            found.push(path);
        } else if !name.starts_with('.')
            && !["target", "out", "corpus", "artifacts", "node_modules"].contains(&name.as_str())
        {
            files(&path, found);
        }
    }
}

fn all_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(Path::new(""), &mut found);
    found
}

fn pages() -> BTreeMap<PathBuf, Page> {
    let pages = all_files().into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages
        .map(|path| {
            let text = std::fs::read_to_string(root().join(&path)).expect("a page of the project");
            (path, Page::read(&text))
        })
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    assert!(pages.values().map(|page| page.links.len()).sum::<usize>() > 100, "links are found");
    let broken = broken(root(), &pages);
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn the_list_of_pages_has_every_page() {
    let pages = pages();
    let list = Path::new("docs/README.md");
    let listed: Vec<_> = pages[list].links.iter().filter_map(|(_, link)| joined(list, link)).collect();
    for path in pages.keys().filter(|path| path.starts_with("docs") && *path != list) {
        assert_eq!(listed.iter().filter(|listed| *listed == path).count(), 1, "{} in docs/README.md", path.display());
    }
}

/// Help texts, error messages, comments and scripts name pages by their path from the root.
#[test]
fn every_page_that_a_file_names_is_there() {
    let mut named = 0;
    for path in all_files() {
        let Ok(text) = std::fs::read_to_string(root().join(&path)) else { continue };
        for (at, _) in text.match_indices("docs/") {
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/-_.".contains(c))).unwrap_or(rest.len());
            let page = rest[..end].trim_end_matches('.');
            if page.ends_with(".md") {
                named += 1;
                assert!(root().join(page).is_file(), "{} names {page}, which does not exist", path.display());
            }
        }
    }
    assert!(named > 20, "pages are named");
}

#[test]
fn broken_links_are_found() {
    let text = "# A `title`, twice\n\n[good](#a-title-twice) [good](#a-title-twice-1)\n[bad](#title)\n\n## A title twice\n\n\
        ```\n[no link](nowhere.md)\n```\n\n| a |\n|---|\n| [bad](nowhere.md) |\n\n[good](Cargo.toml) [bad](../outside.md) \
        [good](https://example.org/a)\n";
    let pages = BTreeMap::from([(PathBuf::from("page.md"), Page::read(text))]);
    let expected = [
        "page.md:4: #title: no such heading",
        "page.md:14: nowhere.md: no such file",
        "page.md:16: ../outside.md: no such file",
    ];
    assert_eq!(broken(root(), &pages), expected);
}
