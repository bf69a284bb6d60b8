//! Words of the metadata that are known, and those that are not.

/// Makes an enum of words of the metadata from one table: names from version 3 on, and in version 2 where it has them.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $enum:ident; $($(#[doc = $line:literal])+ $variant:ident = $name:literal $($old:literal)?;)*) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $enum {
            $($(#[doc = $line])+ $variant,)*
            /// One that this crate does not know, by its name.
            Other(String),
        }

        impl $enum {
            /// All that have a name of their own.
            pub const ALL: &'static [$enum] = &[$($enum::$variant,)*];

            /// The name in the metadata from version 3 on.
            pub fn name(&self) -> &str {
                match self {
                    $($enum::$variant => $name,)*
                    $enum::Other(name) => name,
                }
            }

            /// The word of a name of any version.
            pub fn from_name(name: &str) -> $enum {
                match name {
                    $($name $(| $old)? => $enum::$variant,)*
                    other => $enum::Other(other.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use words;
