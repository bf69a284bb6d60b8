//! The macros behind [`crate::records`]: a row of a table becomes a field, its bytes and its documentation.

/// Makes structs of fields; each field has a number that is never used again for another.
macro_rules! fields {
    ($( $(#[doc = $doc:literal])+ $name:ident { $( $(#[doc = $help:literal])+ $tag:literal $field:ident: $type:ty, )* } )*) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $( $(#[doc = $help])+ pub $field: $type, )*
        }

        impl $crate::value::Fields for $name {
            const NAME: &'static str = stringify!($name);
            const ROWS: &'static [$crate::value::FieldRow] = &[$( $crate::value::FieldRow {
                tag: $tag,
                name: stringify!($field),
                kind: <$type as $crate::value::Value>::KIND,
                repeated: <$type as $crate::value::Value>::REPEATED,
                of: <$type as $crate::value::Value>::OF,
                help: concat!($($help,)+),
            }, )*];

            fn shown(&self) -> Vec<(&'static str, $crate::value::Shown)> {
                [$( (stringify!($field), $crate::value::Value::shown(&self.$field)), )*]
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?)))
                    .collect()
            }

            fn write(&self, out: &mut Vec<u8>) {
                $( $crate::value::Value::put(&self.$field, $tag, out); )*
            }

            fn take(&mut self, tag: u16, bytes: &[u8]) -> Result<(), String> {
                match tag {
                    $( $tag => $crate::value::Value::take(&mut self.$field, bytes), )*
                    _ => Ok(()),
                }
                .map_err(|why| why.to_string())
            }
        }
    )* };
}
pub(crate) use fields;

/// Makes the structs usable as the value of a field.
macro_rules! nested {
    ($( $name:ident )*) => { $(
        impl $crate::value::Value for $name {
            const KIND: $crate::value::Kind = $crate::value::Kind::Record;
            const OF: Option<&'static str> = Some(stringify!($name));
            fn put(&self, tag: u16, out: &mut Vec<u8>) {
                $crate::value::put_record(self, tag, out);
            }
            fn take(&mut self, bytes: &[u8]) -> Result<(), $crate::value::Wrong> {
                *self = $crate::value::read(bytes)?;
                Ok(())
            }
            fn shown(&self) -> Option<$crate::value::Shown> {
                let fields = $crate::value::Fields::shown(self);
                (!fields.is_empty()).then_some($crate::value::Shown::Record(fields))
            }
        }
    )* };
}
pub(crate) use nested;

/// Makes enums of numbers; one that is not in the table is kept.
macro_rules! numbered {
    ($( $(#[doc = $doc:literal])+ $name:ident { $( $(#[doc = $help:literal])+ $number:literal $variant:ident, )* } )*) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[doc = $help])+ $variant, )*
            /// A number that this version does not know; 0 when nothing was said.
            Other(u64),
        }

        impl $name {
            /// Name, number and meaning of each.
            pub const ROWS: &'static [(&'static str, u64, &'static str)] =
                &[$( (stringify!($variant), $number, concat!($($help,)+)), )*];

            /// Its number in the file.
            pub fn number(self) -> u64 {
                match self {
                    $( $name::$variant => $number, )*
                    $name::Other(number) => number,
                }
            }

            /// What a number means.
            pub fn of(number: u64) -> $name {
                match number {
                    $( $number => $name::$variant, )*
                    other => $name::Other(other),
                }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::Other(0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match Self::ROWS.iter().find(|row| row.1 == self.number()) {
                    Some(row) => f.write_str(row.0),
                    None => write!(f, "{}", self.number()),
                }
            }
        }

        $crate::value::numbers! { $name: |kind| kind.number(), |number| Some($name::of(number)); }
    )* };
}
pub(crate) use numbered;

/// Numbers the kinds of records among the frames, and makes what a reader keeps of each.
macro_rules! records {
    ($( $(#[doc = $doc:literal])+ $number:literal $name:ident $list:ident, )*) => {
        $( impl Record for $name {
            const TYPE: u16 = $number;
        } )*

        /// The records of a file, each kind in the order in which they were written.
        #[derive(Clone, Debug, Default)]
        pub struct Records {
            $( $(#[doc = $doc])+ pub $list: Vec<Placed<$name>>, )*
        }

        impl Records {
            /// Takes a frame in; `None` when its type is not a record's.
            pub(crate) fn take(&mut self, place: FramePosition, frame: u16, body: &[u8]) -> Option<Result<(), $crate::value::Wrong>> {
                Some(match frame {
                    $( $number => $crate::value::read::<$name>(body).map(|value| self.$list.push(Placed { place, value })), )*
                    _ => return None,
                })
            }

            /// Name and fields of every record, in the order of the file.
            pub fn shown(&self) -> Vec<(FramePosition, &'static str, Vec<(&'static str, $crate::value::Shown)>)> {
                let mut all = Vec::new();
                $( all.extend(self.$list.iter().map(|r| (r.place, <$name as $crate::value::Fields>::NAME, $crate::value::Fields::shown(&r.value)))); )*
                all.sort_by_key(|(place, ..)| *place);
                all
            }
        }

        /// Frame type, name, what it is, and fields of every kind of record.
        pub const RECORDS: &[(u16, &str, &str, &[$crate::value::FieldRow])] = &[
            $( ($number, stringify!($name), concat!($($doc,)+), <$name as $crate::value::Fields>::ROWS), )*
        ];
    };
}
pub(crate) use records;
