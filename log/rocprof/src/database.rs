//! A database of rocpd as a log: dispatches, copies, and the ranges of ROCTx. Calls of the host are left out, as logs have none.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use logdur_journal::{Operation, copies};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};
use serde_json::{Map, Value, json};

use crate::lines::{Lines, Maker};
use crate::write::NO_THREAD;
use crate::{RocprofError, schema};

/// How a database of SQLite begins. Source: "Database File Format", sqlite.org.
pub const MAGIC: &[u8] = b"SQLite format 3\0";

const DISPATCHES: &str = "SELECT K.start, K.\"end\", S.display_name, P.pid, json_extract(P.extdata, '$.rank'), K.dispatch_id, \
    A.type_index, K.queue_id, K.grid_size_x, K.grid_size_y, K.grid_size_z, K.workgroup_size_x, K.workgroup_size_y, \
    K.workgroup_size_z, K.group_segment_size, K.private_segment_size, S.kernarg_segment_size, S.kernel_object, \
    S.arch_vgpr_count, S.accum_vgpr_count, S.sgpr_count, C.uri, json_extract(K.extdata, '$.dispatch'), T.tid, \
    nullif(S.kernel_name, S.display_name) \
    FROM rocpd_kernel_dispatch K \
    LEFT JOIN rocpd_info_thread T ON T.id = K.tid AND T.guid = K.guid \
    JOIN rocpd_info_kernel_symbol S ON S.id = K.kernel_id AND S.guid = K.guid \
    JOIN rocpd_info_code_object C ON C.id = S.code_object_id AND C.guid = S.guid \
    JOIN rocpd_info_agent A ON A.id = K.agent_id AND A.guid = K.guid \
    JOIN rocpd_info_process P ON P.id = K.pid AND P.guid = K.guid";

const COPIES: &str = "SELECT M.start, M.\"end\", P.pid, json_extract(P.extdata, '$.rank'), M.size, F.type, F.type_index, T.type, \
    T.type_index, H.tid FROM rocpd_memory_copy M \
    LEFT JOIN rocpd_info_thread H ON H.id = M.tid AND H.guid = M.guid \
    LEFT JOIN rocpd_info_agent F ON F.id = M.src_agent_id AND F.guid = M.guid \
    LEFT JOIN rocpd_info_agent T ON T.id = M.dst_agent_id AND T.guid = M.guid \
    JOIN rocpd_info_process P ON P.id = M.pid AND P.guid = M.guid";

/// rocprofiler-sdk's categories of ROCTx begin with one word.
const RANGES: &str = "SELECT R.start, R.\"end\", N.string, P.pid, json_extract(P.extdata, '$.rank'), T.tid FROM rocpd_region R \
    JOIN rocpd_string N ON N.id = R.name_id AND N.guid = R.guid \
    JOIN rocpd_event E ON E.id = R.event_id AND E.guid = R.guid \
    JOIN rocpd_string C ON C.id = E.category_id AND C.guid = E.guid AND C.string LIKE 'MARKER%' \
    JOIN rocpd_info_thread T ON T.id = R.tid AND T.guid = R.guid \
    JOIN rocpd_info_process P ON P.id = R.pid AND P.guid = R.guid";

const GPUS: &str = "SELECT A.type_index, A.name, A.product_name, json_extract(A.extdata, '$.uuid'), \
    json_extract(A.extdata, '$.bdf'), P.pid FROM rocpd_info_agent A \
    JOIN rocpd_info_process P ON P.id = A.pid AND P.guid = A.guid WHERE A.type = 'GPU' ORDER BY A.guid, A.id";

/// The lines of a database.
///
/// # Errors
/// When it cannot be opened, or has another schema.
pub fn open(path: &Path) -> Result<BufReader<Lines>, RocprofError> {
    let path: PathBuf = path.to_owned();
    // What is wrong from the beginning is told before a line is read.
    let database = connect(&path)?;
    Ok(Lines::begin(move |maker| lines(&database, maker))?)
}

fn connect(path: &Path) -> Result<Connection, RocprofError> {
    let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let version = "SELECT value FROM rocpd_metadata WHERE tag = 'schema_version'";
    let has_metadata = "SELECT count(*) FROM sqlite_master WHERE name = 'rocpd_metadata'";
    if database.query_row(has_metadata, [], |row| row.get::<_, i64>(0))? == 0 {
        return Err(RocprofError::Schema("a database without the table rocpd_metadata".to_owned()));
    }
    let version: Option<String> = database.query_row(version, [], |row| row.get(0)).optional()?;
    match version {
        Some(version) if version.split('.').next() == Some(schema::VERSION) => Ok(database),
        Some(version) => Err(RocprofError::Schema(format!("version {version}"))),
        None => Err(RocprofError::Schema("no version".to_owned())),
    }
}

fn lines(database: &Connection, maker: &mut Maker) -> Result<(), RocprofError> {
    each(database, GPUS, |row| {
        let position: i64 = row.get::<_, Option<i64>>(0)?.unwrap_or(0);
        let [name, product, uuid, bdf] = [1, 2, 3, 4].map(|at| row.get::<_, Option<String>>(at));
        let (name, product) = (name?.unwrap_or_default(), product?.unwrap_or_default());
        let device = uuid?.zip(bdf?).filter(|(uuid, bdf)| !uuid.is_empty() || !bdf.is_empty());
        let pid: i64 = row.get(5)?;
        let device = device.map(|(uuid, bdf)| format!("uuid={uuid} bdf={bdf} pid={pid}"));
        maker.agent(position, &name, &product, device.as_deref())
    })?;
    each(database, DISPATCHES, |row| {
        let number = |at| row.get::<_, Option<i64>>(at);
        let size = |at: usize| Ok::<_, rusqlite::Error>(json!([number(at)?, number(at + 1)?, number(at + 2)?]));
        let more = members([
            ("pid", json!(number(3)?)),
            ("rank", json!(number(4)?)),
            ("id", json!(number(5)?)),
            ("agent", json!(number(6)?.unwrap_or(0))),
            ("queue", json!(number(7)?)),
            ("grid", size(8)?),
            ("workgroup", size(11)?),
            ("ldsBytes", json!(number(14)?)),
            ("scratchBytes", json!(number(15)?)),
            ("kernargBytes", json!(number(16)?)),
            ("kernelObject", json!(number(17)?.map(|address| format!("{address:#x}")))),
            ("vgprs", json!(number(18)?)),
            ("agprs", json!(number(19)?)),
            ("sgprs", json!(number(20)?)),
            ("code", json!(row.get::<_, Option<String>>(21)?)),
            ("dispatch", json!(number(22)?)),
            ("tid", json!(thread(row, 23)?)),
            ("symbol", json!(row.get::<_, Option<String>>(24)?)),
        ]);
        let name: Option<String> = row.get(2)?;
        maker.row(Operation::Dispatch, &name.unwrap_or_default(), (row.get(0)?, row.get(1)?), more)
    })?;
    each(database, COPIES, |row| {
        let side = |at: usize| -> rusqlite::Result<copies::Side> {
            let kind: Option<String> = row.get(at)?;
            let position: Option<i64> = row.get(at + 1)?;
            Ok(position.filter(|_| kind.as_deref() == Some("GPU")).and_then(|position| position.try_into().ok()))
        };
        let more = members([
            ("pid", json!(row.get::<_, Option<i64>>(2)?)),
            ("rank", json!(row.get::<_, Option<i64>>(3)?)),
            ("bytes", json!(row.get::<_, i64>(4)?)),
            ("tid", json!(thread(row, 9)?)),
        ]);
        maker.copy((side(5)?, side(7)?), (row.get(0)?, row.get(1)?), more)
    })?;
    each(database, RANGES, |row| {
        let (start, end): (i64, i64) = (row.get(0)?, row.get(1)?);
        let more = members([
            ("pid", json!(row.get::<_, Option<i64>>(3)?)),
            ("rank", json!(row.get::<_, Option<i64>>(4)?)),
            ("tid", json!(thread(row, 5)?)),
        ]);
        let operation = if start == end { Operation::Mark } else { Operation::Range };
        maker.row(operation, &row.get::<_, String>(2)?, (start, end), more)
    })
}

/// The number of a thread, if it is known.
fn thread(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<i64>> {
    Ok(row.get::<_, Option<i64>>(at)?.filter(|tid| *tid != NO_THREAD))
}

fn each(
    database: &Connection,
    sql: &str,
    mut each: impl FnMut(&Row<'_>) -> Result<(), RocprofError>,
) -> Result<(), RocprofError> {
    let mut statement = database.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        each(row)?;
    }
    Ok(())
}

fn members<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
