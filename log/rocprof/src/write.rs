//! Logs into a database.
//!
//! A log names no host, so all processes are of one node without a name. rocpd gives each row a thread and a stream. Rows whose thread is
//! not known get one with the number 0, since the views leave out rows without a thread. A log has no streams: each process has one.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hash;
use std::io::{BufRead, Read};
use std::path::Path;

use logdur_journal::{Operation, copies};
use logdur_report::Log;
use logdur_report::columns::{self, COLUMNS, Rows, Value};
use logdur_report::gpus::Device;
use rusqlite::{Connection, params};
use serde_json::json;

use crate::{RocprofError, schema};

/// What was written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// What was read.
    pub read: Rows,
    /// Rows in the database.
    pub rows: u64,
    /// Rows that have no start or no end: rocpd has no place for them.
    pub without_times: u64,
}

/// The number of the thread of rows that do not say which.
pub(crate) const NO_THREAD: i64 = 0;

/// The id of a row of a table.
type Id = i64;

/// The ids of what was inserted, by what tells it apart.
struct Ids<K>(HashMap<K, Id>);

impl<K> Default for Ids<K> {
    fn default() -> Ids<K> {
        Ids(HashMap::new())
    }
}

impl<K: Hash + Eq> Ids<K> {
    /// The id of `key`, which is inserted if it is new.
    fn of(&mut self, key: K, insert: impl FnOnce(&K) -> Result<Id, RocprofError>) -> Result<Id, RocprofError> {
        if let Some(id) = self.0.get(&key) {
            return Ok(*id);
        }
        let id = insert(&key)?;
        self.0.insert(key, id);
        Ok(id)
    }
}

/// A process.
struct Process {
    id: Id,
    stream: Id,
    /// The host's agent.
    host: Id,
    /// The first start and the last end of its rows, in nanoseconds.
    times: (i64, i64),
}

/// What a log says of a GPU of a process, or of all processes.
#[derive(Clone, Default)]
struct Named {
    name: String,
    device: Device,
}

/// Fills a database.
pub struct Writer {
    database: Connection,
    suffix: String,
    node: Id,
    written: Written,
    processes: HashMap<i64, Process>,
    strings: Ids<String>,
    threads: Ids<(Id, i64)>,
    agents: Ids<(Id, i64)>,
    queues: Ids<(Id, i64, i64)>,
    code: Ids<(Id, i64, String)>,
    kernels: Ids<(Id, String, [i64; 3])>,
    /// Of the log that is read: names of GPUs by their position, and devices by process and position.
    names: HashMap<i64, String>,
    devices: HashMap<(Option<u64>, i64), Device>,
}

/// The cells of a row, by the names of columns.
struct Row<'a> {
    cells: &'a [Option<Value<'a>>],
}

impl Row<'_> {
    fn cell(&self, name: &str) -> Option<&Value<'_>> {
        let at = COLUMNS.iter().position(|(column, ..)| *column == name)?;
        self.cells.get(at)?.as_ref()
    }

    fn text(&self, name: &str) -> &str {
        match self.cell(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    fn number(&self, name: &str) -> Option<i64> {
        match self.cell(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// What a log has of a row and rocpd has no column for.
    fn more(&self) -> String {
        let mut more = serde_json::Map::new();
        for name in ["flags", "replaced"] {
            if !self.text(name).is_empty() {
                more.insert(name.to_owned(), json!(self.text(name)));
            }
        }
        for name in ["dispatch", "rank"] {
            if let Some(number) = self.number(name) {
                more.insert(name.to_owned(), json!(number));
            }
        }
        serde_json::Value::Object(more).to_string()
    }
}

impl Writer {
    /// Begins a database in a file that is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(path: &Path) -> Result<Writer, RocprofError> {
        let database = Connection::open(path)?;
        // The file is nobody's until it is whole.
        database
            .execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF; BEGIN")?;
        let guid = guid()?;
        schema::create(&database, &guid)?;
        let suffix = schema::suffix(&guid);
        database.execute(
            &format!("INSERT INTO \"rocpd_info_node{suffix}\" (hash, machine_id) VALUES (0, ?1)"),
            [format!("unknown: {guid}")],
        )?;
        let node = database.last_insert_rowid();
        database.set_prepared_statement_cache_capacity(32);
        Ok(Writer {
            database,
            suffix,
            node,
            written: Written::default(),
            processes: HashMap::new(),
            strings: Ids::default(),
            threads: Ids::default(),
            agents: Ids::default(),
            queues: Ids::default(),
            code: Ids::default(),
            kernels: Ids::default(),
            names: HashMap::new(),
            devices: HashMap::new(),
        })
    }

    /// Adds the rows of a log.
    ///
    /// # Errors
    /// When the log cannot be read or is none, or the database cannot be written.
    pub fn read<R: BufRead>(&mut self, name: &str, log: &mut Log<R>) -> Result<(), RocprofError> {
        let mut read = std::mem::take(&mut self.written.read);
        // Both closures fill the writer, one after the other.
        let writer = std::cell::RefCell::new(&mut *self);
        writer.borrow_mut().names.clear();
        writer.borrow_mut().devices.clear();
        let done = columns::read_with_gpus(
            name,
            log,
            &mut read,
            |position, name, device| writer.borrow_mut().learn(position.cast_signed(), name, device),
            |cells| writer.borrow_mut().row(&Row { cells }),
        );
        self.written.read = read;
        done
    }

    /// Ends the database.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> Result<Written, RocprofError> {
        let update = format!("UPDATE \"rocpd_info_process{}\" SET start = ?1, \"end\" = ?2 WHERE id = ?3", self.suffix);
        for Process { id, times: (start, end), .. } in self.processes.values() {
            self.database.execute(&update, params![start, end, id])?;
        }
        self.database.execute_batch("COMMIT")?;
        self.database.close().map_err(|(_, error)| error)?;
        Ok(self.written)
    }

    fn learn(&mut self, position: i64, name: Option<String>, device: Option<Device>) {
        if let Some(name) = name {
            self.names.insert(position, name);
        }
        if let Some(device) = device {
            self.devices.insert((device.pid, position), device);
        }
    }

    fn row(&mut self, row: &Row<'_>) -> Result<(), RocprofError> {
        let (Some(start), Some(end)) = (row.number("startNs"), row.number("endNs")) else {
            self.written.without_times += 1;
            return Ok(());
        };
        let pid = row.number("pid").unwrap_or(0);
        let process = self.process(pid, row)?;
        process.times = (process.times.0.min(start), process.times.1.max(end));
        let (process, stream, host) = (process.id, process.stream, process.host);
        let thread = self.thread(process, row.number("tid").unwrap_or(NO_THREAD))?;
        let operation = Operation::named(row.text("kind").as_bytes()).unwrap_or(Operation::Dispatch);
        let category = self.string(match operation {
            Operation::Dispatch => "KERNEL_DISPATCH",
            Operation::Copy => "MEMORY_COPY",
            Operation::Range | Operation::Mark => "MARKER_CORE_API",
        })?;
        let id = row.number("id").unwrap_or(0);
        let event = self.insert(
            "event",
            "category_id, stack_id, parent_stack_id, correlation_id",
            params![category, id, 0, id],
        )?;
        let more = row.more();
        match operation {
            Operation::Dispatch => {
                let (agent, kernel, queue, empty) = (
                    self.agent(process, pid, row)?,
                    self.kernel(process, pid, row)?,
                    self.queue(process, row)?,
                    self.string("")?,
                );
                let size = |name| row.number(name).unwrap_or(0);
                self.insert(
                    "kernel_dispatch",
                    "nid, pid, tid, agent_id, kernel_id, dispatch_id, queue_id, stream_id, start, \"end\", private_segment_size, \
                     group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, grid_size_x, grid_size_y, \
                     grid_size_z, region_name_id, event_id, extdata",
                    params![
                        self.node,
                        process,
                        thread,
                        agent,
                        kernel,
                        id,
                        queue,
                        stream,
                        start,
                        end,
                        row.number("scratchBytes"),
                        row.number("ldsBytes"),
                        size("workgroupX"),
                        size("workgroupY"),
                        size("workgroupZ"),
                        size("gridX"),
                        size("gridY"),
                        size("gridZ"),
                        empty,
                        event,
                        more
                    ],
                )?;
            }
            Operation::Copy => {
                let sides = copies::sides(row.text("kernel"));
                let mut side = |side: copies::Side| match side {
                    None => Ok(host),
                    Some(position) => self.agent_at(process, pid, position as i64),
                };
                let (from, to) = match sides {
                    Some((from, to)) => (side(from)?, side(to)?),
                    None => (host, host),
                };
                let name = self.string(direction(sides))?;
                let empty = self.string("")?;
                self.insert(
                    "memory_copy",
                    "nid, pid, tid, start, \"end\", name_id, dst_agent_id, src_agent_id, size, stream_id, region_name_id, event_id, \
                     extdata",
                    params![
                        self.node,
                        process,
                        thread,
                        start,
                        end,
                        name,
                        to,
                        from,
                        row.number("bytes").unwrap_or(0),
                        stream,
                        empty,
                        event,
                        more
                    ],
                )?;
            }
            Operation::Range | Operation::Mark => {
                let name = self.string(row.text("kernel"))?;
                self.insert(
                    "region",
                    "nid, pid, tid, start, \"end\", name_id, event_id, extdata",
                    params![self.node, process, thread, start, end, name, event, more],
                )?;
            }
        }
        self.written.rows += 1;
        Ok(())
    }

    /// Inserts a row into a table, and returns its id.
    fn insert(&self, table: &str, columns: &str, values: &[&dyn rusqlite::ToSql]) -> Result<Id, RocprofError> {
        let marks = vec!["?"; values.len()].join(", ");
        let sql = format!("INSERT INTO \"rocpd_{table}{}\" ({columns}) VALUES ({marks})", self.suffix);
        Ok(self.database.prepare_cached(&sql)?.insert(values)?)
    }

    fn string(&mut self, text: &str) -> Result<Id, RocprofError> {
        let mut strings = std::mem::take(&mut self.strings);
        let id = strings.of(text.to_owned(), |text| self.insert("string", "string", params![text]));
        self.strings = strings;
        id
    }

    fn process(&mut self, pid: i64, row: &Row<'_>) -> Result<&mut Process, RocprofError> {
        if !self.processes.contains_key(&pid) {
            let extdata = row.number("rank").map_or(json!({}), |rank| json!({ "rank": rank })).to_string();
            let id = self.insert("info_process", "nid, pid, extdata", params![self.node, pid, extdata])?;
            let stream = self.insert("info_stream", "nid, pid, name", params![self.node, id, "Default Stream"])?;
            let host = self.insert(
                "info_agent",
                "nid, pid, type, absolute_index, logical_index, type_index, name, user_name",
                params![self.node, id, "CPU", 0, 0, 0, "host", "host"],
            )?;
            self.processes.insert(pid, Process { id, stream, host, times: (i64::MAX, i64::MIN) });
        }
        self.processes.get_mut(&pid).ok_or_else(|| RocprofError::Schema("no process".to_owned()))
    }

    fn thread(&mut self, process: Id, tid: i64) -> Result<Id, RocprofError> {
        let mut threads = std::mem::take(&mut self.threads);
        let id = threads.of((process, tid), |_| {
            let name = if tid == NO_THREAD { "unknown thread".to_owned() } else { format!("Thread {tid}") };
            self.insert("info_thread", "nid, pid, tid, name", params![self.node, process, tid, name])
        });
        self.threads = threads;
        id
    }

    fn agent(&mut self, process: Id, pid: i64, row: &Row<'_>) -> Result<Id, RocprofError> {
        self.agent_at(process, pid, row.number("agent").unwrap_or(0))
    }

    /// A GPU of a process. The host's agent is before all of them.
    fn agent_at(&mut self, process: Id, pid: i64, position: i64) -> Result<Id, RocprofError> {
        let mut agents = std::mem::take(&mut self.agents);
        let id = agents.of((process, position), |_| {
            let named = self.named(pid, position);
            let (name, product) = named.name.split_once(", ").unwrap_or((&named.name, ""));
            let extdata = json!({ "uuid": named.device.uuid, "bdf": named.device.bdf }).to_string();
            self.insert(
                "info_agent",
                "nid, pid, type, absolute_index, logical_index, type_index, name, vendor_name, product_name, user_name, extdata",
                params![
                    self.node,
                    process,
                    "GPU",
                    position + 1,
                    position + 1,
                    position,
                    name,
                    "AMD",
                    product,
                    format!("GPU {position}"),
                    extdata
                ],
            )
        });
        self.agents = agents;
        id
    }

    fn named(&self, pid: i64, position: i64) -> Named {
        let own = self.devices.get(&(u64::try_from(pid).ok(), position));
        let device = own.or_else(|| self.devices.get(&(None, position))).cloned().unwrap_or_default();
        Named { name: self.names.get(&position).cloned().unwrap_or_default(), device }
    }

    fn queue(&mut self, process: Id, row: &Row<'_>) -> Result<Id, RocprofError> {
        let (agent, number) = (row.number("agent").unwrap_or(0), row.number("queue").unwrap_or(0));
        let mut queues = std::mem::take(&mut self.queues);
        let id = queues.of((process, agent, number), |_| {
            self.insert("info_queue", "nid, pid, name", params![self.node, process, format!("Queue {number}")])
        });
        self.queues = queues;
        id
    }

    fn kernel(&mut self, process: Id, pid: i64, row: &Row<'_>) -> Result<Id, RocprofError> {
        let agent = self.agent(process, pid, row)?;
        let mut code = std::mem::take(&mut self.code);
        let object = code.of((process, agent, row.text("code").to_owned()), |(_, _, code)| {
            let storage = if code.starts_with('#') { "MEMORY" } else { "FILE" };
            self.insert(
                "info_code_object",
                "nid, pid, agent_id, uri, storage_type",
                params![self.node, process, agent, code, storage],
            )
        });
        self.code = code;
        let registers = ["sgprs", "vgprs", "agprs"].map(|name| row.number(name));
        let key = (object?, row.text("kernel").to_owned(), registers.map(|count| count.unwrap_or(-1)));
        let mut kernels = std::mem::take(&mut self.kernels);
        // rocprofiler-sdk has the symbol there.
        let symbol = if row.text("symbol").is_empty() { row.text("kernel") } else { row.text("symbol") };
        let id = kernels.of(key, |(object, name, _)| {
            let [sgprs, vgprs, agprs] = registers;
            self.insert(
                "info_kernel_symbol",
                "nid, pid, code_object_id, kernel_name, display_name, kernel_object, kernarg_segment_size, sgpr_count, \
                 arch_vgpr_count, accum_vgpr_count",
                params![
                    self.node,
                    process,
                    object,
                    symbol,
                    name,
                    row.number("kernelObject"),
                    row.number("kernargBytes"),
                    sgprs,
                    vgprs,
                    agprs
                ],
            )
        });
        self.kernels = kernels;
        id
    }
}

/// What rocprofiler-sdk calls a copy (`rocprofiler_memory_copy_operation_t`).
fn direction(sides: Option<(copies::Side, copies::Side)>) -> &'static str {
    match sides {
        None => "MEMORY_COPY_NONE",
        Some((None, None)) => "MEMORY_COPY_HOST_TO_HOST",
        Some((None, Some(_))) => "MEMORY_COPY_HOST_TO_DEVICE",
        Some((Some(_), None)) => "MEMORY_COPY_DEVICE_TO_HOST",
        Some((Some(_), Some(_))) => "MEMORY_COPY_DEVICE_TO_DEVICE",
    }
}

/// A random number that tells exports apart, as RFC 9562 writes it (version 4).
fn guid() -> Result<String, RocprofError> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes))?;
    let number = u128::from_be_bytes(bytes);
    let number = number & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    Ok([part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"))
}
