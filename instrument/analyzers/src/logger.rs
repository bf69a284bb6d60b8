//! Messages as they come, one record each.

use std::marker::PhantomData;

use logdur_analysis::forms::{Form, Out};
use logdur_handler::Open;
use logdur_handler::messages::{Header, Kind, Message};
use serde_json::json;

use crate::each::{About, Analyzer};

/// Which messages a logger has.
pub(crate) trait Which {
    /// The logger's name.
    const NAME: &'static str;

    /// True for its messages.
    fn has(kind: Kind) -> bool;
}

/// All messages.
pub(crate) struct All;

/// Address messages.
pub(crate) struct Addresses;

/// Starts of blocks.
pub(crate) struct BlockStarts;

impl Which for All {
    const NAME: &'static str = "MessageLogger";

    fn has(_kind: Kind) -> bool {
        true
    }
}

impl Which for Addresses {
    const NAME: &'static str = "AddressLogger";

    fn has(kind: Kind) -> bool {
        kind == Kind::Address
    }
}

impl Which for BlockStarts {
    const NAME: &'static str = "BasicBlockLogger";

    fn has(kind: Kind) -> bool {
        kind == Kind::BlockStart
    }
}

/// Writes messages.
pub(crate) struct Logger<W> {
    which: PhantomData<W>,
}

/// What a message is, in a word.
fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Address => "ADDRESS_MESSAGE",
        Kind::TimeInterval => "TIME_INTERVAL",
        Kind::BlockStart => "BASIC_BLOCK_START",
        Kind::Undefined | Kind::User(_) => "USER_MESSAGE",
    }
}

/// What an address message does; of others their number.
fn operation(header: &Header) -> String {
    if header.kind != Kind::Address {
        return header.user_data.to_string();
    }
    let access = header.access();
    match (access.reads, access.writes) {
        (true, true) => "read/write",
        (true, false) => "read",
        (false, true) => "write",
        (false, false) => "none",
    }
    .to_owned()
}

impl<W: Which> Analyzer for Logger<W> {
    const NAME: &'static str = W::NAME;
    const COLUMNS: &'static str = "message,timestamp,kernel,src_line,src_column,dispatch,exec_mask,block_x,block_y,block_z,wave,\
                                   xcc_id,se_id,cu_id,kind,data";

    fn begin(_open: &Open) -> Result<Logger<W>, String> {
        Ok(Logger { which: PhantomData })
    }

    fn message(&mut self, about: &About, message: &Message<'_>, out: &mut Out) {
        let header = &message.header;
        if !W::has(header.kind) {
            return;
        }
        let addresses: Vec<u64> = message.addresses().collect();
        // Of other messages than addresses, the dwords of each item.
        let words = || (0..message.items()).flat_map(|n| message.item(n)).map(u64::from);
        let data: Vec<u64> = if header.kind == Kind::Address { addresses } else { words().collect() };
        let [x, y, z] = header.block;
        if out.form == Form::Json {
            let mut object = json!({
                "kernel_name": about.kernel, "dispatch_id": about.id, "exec": header.exec, "timestamp": header.timestamp,
                "dwarf_line": header.line, "dwarf_column": header.column,
                "block_idx_x": x, "block_idx_y": y, "block_idx_z": z, "wave_num": header.wave,
                "xcc_id": header.xcc, "se_id": header.se, "cu_id": header.cu, "active_lane_count": header.lanes,
                "user_type": header.kind.number(), "op_type": operation(header),
            });
            object[if header.kind == Kind::Address { "addresses" } else { "data" }] = data.into();
            out.object(&object);
            return;
        }
        let data: Vec<String> = data.iter().map(|word| format!("{word:#x}")).collect();
        let (data, exec) = (data.join(" "), format!("{:#x}", header.exec));
        if out.form == Form::Csv {
            out.row(&[
                &word(header.kind),
                &header.timestamp,
                &about.kernel,
                &header.line,
                &header.column,
                &about.id,
                &exec,
                &x,
                &y,
                &z,
                &header.wave,
                &header.xcc,
                &header.se,
                &header.cu,
                &operation(header),
                &data,
            ]);
        } else {
            let (kind, operation) = (word(header.kind), operation(header));
            out.line(&format!(
                "{kind} {}[{}] at {} line {} block ({x}, {y}, {z}) wave {} lanes {exec} {operation}: {data}",
                about.kernel, about.id, header.timestamp, header.line, header.wave
            ));
        }
    }

    fn end(self, _about: &About, _open: &Open, _out: &mut Out) {}
}
