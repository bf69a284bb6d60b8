//! The files and folders of the emulated device tree, by their paths.

/// What is at a path of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file with this text.
    File(String),
    /// A folder, though nothing may be in it.
    Folder,
    /// A symbolic link. It is relative, so that it stays inside of the tree.
    Link(String),
}

/// Files and folders by the absolute paths that the runtime opens.
pub(crate) type Entries = Vec<(String, Entry)>;

/// A file with a text.
pub(crate) fn file(path: impl Into<String>, text: impl Into<String>) -> (String, Entry) {
    (path.into(), Entry::File(text.into()))
}
