//! The tables and views.

use std::fmt::Write;

use rusqlite::Connection;

/// The version of the schema, as its metadata has it.
pub(crate) const VERSION: &str = "3";

/// Tables: their names behind `rocpd_`, and their columns behind `id` and `guid`. `!` marks a column that is never empty; a name in
/// brackets is the table whose `id` the column has, else the type follows.
const TABLES: &[(&str, &str)] = &[
    ("string", "string! TEXT"),
    (
        "info_node",
        "hash! BIGINT, machine_id! TEXT, system_name TEXT, hostname TEXT, release TEXT, version TEXT, hardware_name TEXT, \
         domain_name TEXT",
    ),
    (
        "info_process",
        "nid! [info_node], ppid INTEGER, pid! INTEGER, init BIGINT, fini BIGINT, start BIGINT, end BIGINT, command TEXT, \
         environment! JSONB, extdata! JSONB",
    ),
    (
        "info_thread",
        "nid! [info_node], ppid INTEGER, pid! [info_process], tid! INTEGER, name TEXT, start BIGINT, end BIGINT, extdata! JSONB",
    ),
    (
        "info_agent",
        "nid! [info_node], pid! [info_process], type TEXT, absolute_index INTEGER, logical_index INTEGER, type_index INTEGER, \
         uuid INTEGER, name TEXT, model_name TEXT, vendor_name TEXT, product_name TEXT, user_name TEXT, extdata! JSONB",
    ),
    ("info_queue", "nid! [info_node], pid! [info_process], name TEXT, extdata! JSONB"),
    ("info_stream", "nid! [info_node], pid! [info_process], name TEXT, extdata! JSONB"),
    (
        "info_pmc",
        "nid! [info_node], pid! [info_process], agent_id [info_agent], target_arch TEXT, event_code INT, instance_id INTEGER, \
         name! TEXT, symbol! TEXT, description TEXT, long_description TEXT, component TEXT, units TEXT, value_type TEXT, \
         block TEXT, expression TEXT, is_constant INTEGER, is_derived INTEGER, extdata! JSONB",
    ),
    (
        "info_code_object",
        "nid! [info_node], pid! [info_process], agent_id [info_agent], uri TEXT, load_base BIGINT, load_size BIGINT, \
         load_delta BIGINT, storage_type TEXT, extdata! JSONB",
    ),
    (
        "info_kernel_symbol",
        "nid! [info_node], pid! [info_process], code_object_id! [info_code_object], kernel_name TEXT, display_name TEXT, \
         kernel_object INTEGER, kernarg_segment_size INTEGER, kernarg_segment_alignment INTEGER, group_segment_size INTEGER, \
         private_segment_size INTEGER, sgpr_count INTEGER, arch_vgpr_count INTEGER, accum_vgpr_count INTEGER, extdata! JSONB",
    ),
    ("track", "nid! [info_node], pid [info_process], tid [info_thread], name_id [string], extdata! JSONB"),
    (
        "event",
        "category_id [string], stack_id INTEGER, parent_stack_id INTEGER, correlation_id INTEGER, call_stack! JSONB, \
         line_info! JSONB, extdata! JSONB",
    ),
    ("arg", "event_id! [event], position! INTEGER, type! TEXT, name! TEXT, value TEXT, extdata! JSONB"),
    ("pmc_event", "event_id [event], pmc_id! [info_pmc], value REAL, extdata! JSONB"),
    (
        "region",
        "nid! [info_node], pid! [info_process], tid! [info_thread], start! BIGINT, end! BIGINT, name_id! [string], \
         event_id [event], extdata! JSONB",
    ),
    ("sample", "track_id! [track], timestamp! BIGINT, event_id [event], extdata! JSONB"),
    (
        "kernel_dispatch",
        "nid! [info_node], pid! [info_process], tid [info_thread], agent_id! [info_agent], kernel_id! [info_kernel_symbol], \
         dispatch_id! INTEGER, queue_id! [info_queue], stream_id! [info_stream], start! BIGINT, end! BIGINT, \
         private_segment_size INTEGER, group_segment_size INTEGER, workgroup_size_x! INTEGER, workgroup_size_y! INTEGER, \
         workgroup_size_z! INTEGER, grid_size_x! INTEGER, grid_size_y! INTEGER, grid_size_z! INTEGER, region_name_id [string], \
         event_id [event], extdata! JSONB",
    ),
    (
        "memory_copy",
        "nid! [info_node], pid! [info_process], tid [info_thread], start! BIGINT, end! BIGINT, name_id! [string], \
         dst_agent_id [info_agent], dst_address INTEGER, src_agent_id [info_agent], src_address INTEGER, size! INTEGER, \
         queue_id [info_queue], stream_id [info_stream], region_name_id [string], event_id [event], extdata! JSONB",
    ),
    (
        "memory_allocate",
        "nid! [info_node], pid! [info_process], tid [info_thread], agent_id [info_agent], type TEXT, level TEXT, start! BIGINT, \
         end! BIGINT, address INTEGER, size! INTEGER, queue_id [info_queue], stream_id [info_stream], event_id [event], \
         extdata! JSONB",
    ),
];

/// What columns of a view are: `NAME` of the view's table, or an expression and the column's name.
type Columns = &'static str;

/// Views that join a row with what it refers to: their names, columns, tables. Tools that read rocpd ask these.
const VIEWS: &[(&str, Columns, &str)] = &[
    (
        "processes",
        "N.id nid, N.machine_id machine_id, N.system_name system_name, N.hostname hostname, N.release system_release, \
         N.version system_version, P.guid guid, P.ppid ppid, P.pid pid, P.init init, P.start start, P.end end, P.fini fini, \
         P.command command",
        "info_process P, info_node N of P.nid",
    ),
    (
        "threads",
        "N.id nid, N.machine_id machine_id, N.system_name system_name, N.hostname hostname, N.release system_release, \
         N.version system_version, P.guid guid, P.ppid ppid, P.pid pid, T.tid tid, T.start start, T.end end, T.name name",
        "info_thread T, info_process P of T.pid, info_node N of T.nid",
    ),
    (
        "kernel_symbols",
        "K.id id, K.guid guid, K.nid nid, P.pid pid, K.code_object_id code_object_id, K.kernel_name kernel_name, \
         K.display_name display_name, K.kernel_object kernel_object, K.kernarg_segment_size kernarg_segment_size, \
         K.group_segment_size group_segment_size, K.private_segment_size private_segment_size, K.sgpr_count sgpr_count, \
         K.arch_vgpr_count arch_vgpr_count, K.accum_vgpr_count accum_vgpr_count",
        "info_kernel_symbol K, info_process P of K.pid",
    ),
    (
        "regions",
        "R.id id, R.guid guid, C.string category, S.string name, R.nid nid, P.pid pid, T.tid tid, R.start start, R.end end, \
         R.end-R.start duration, R.event_id event_id, E.stack_id stack_id, E.parent_stack_id parent_stack_id, \
         E.correlation_id corr_id, E.extdata extdata, E.call_stack call_stack, E.line_info line_info",
        "region R, event E of R.event_id, string C of E.category_id, string S of R.name_id, info_process P of R.pid, \
         info_thread T of R.tid",
    ),
    (
        "kernels",
        "K.id id, K.guid guid, T.tid tid, C.string category, R.string region, S.display_name name, K.nid nid, P.pid pid, \
         A.absolute_index agent_abs_index, A.logical_index agent_log_index, A.type_index agent_type_index, A.type agent_type, \
         S.code_object_id code_object_id, K.kernel_id kernel_id, K.dispatch_id dispatch_id, K.stream_id stream_id, \
         K.queue_id queue_id, Q.name queue, ST.name stream, K.start start, K.end end, K.end-K.start duration, \
         K.grid_size_x grid_x, K.grid_size_y grid_y, K.grid_size_z grid_z, K.workgroup_size_x workgroup_x, \
         K.workgroup_size_y workgroup_y, K.workgroup_size_z workgroup_z, K.group_segment_size lds_size, \
         K.private_segment_size scratch_size, S.arch_vgpr_count vgpr_count, S.accum_vgpr_count accum_vgpr_count, \
         S.sgpr_count sgpr_count, S.group_segment_size static_lds_size, S.private_segment_size static_scratch_size, \
         E.stack_id stack_id, E.parent_stack_id parent_stack_id, E.correlation_id corr_id",
        "kernel_dispatch K, info_agent A of K.agent_id, event E of K.event_id, string C of E.category_id, \
         string R of K.region_name_id, info_kernel_symbol S of K.kernel_id, info_stream ST of K.stream_id, \
         info_queue Q of K.queue_id, info_process P of K.pid, info_thread T of K.tid",
    ),
    (
        "memory_copies",
        "M.id id, M.guid guid, C.string category, M.nid nid, P.pid pid, T.tid tid, M.start start, M.end end, \
         M.end-M.start duration, S.string name, R.string region_name, M.stream_id stream_id, ST.name stream_name, M.size size, \
         D.name dst_device, D.absolute_index dst_agent_abs_index, D.logical_index dst_agent_log_index, \
         D.type_index dst_agent_type_index, D.type dst_agent_type, M.dst_address dst_address, F.name src_device, \
         F.absolute_index src_agent_abs_index, F.logical_index src_agent_log_index, F.type_index src_agent_type_index, \
         F.type src_agent_type, M.src_address src_address, E.stack_id stack_id, E.parent_stack_id parent_stack_id, \
         E.correlation_id corr_id",
        "memory_copy M, string S of M.name_id, string R of M.region_name_id, info_agent D of M.dst_agent_id, \
         info_agent F of M.src_agent_id, info_stream ST of M.stream_id, event E of M.event_id, string C of E.category_id, \
         info_process P of M.pid, info_thread T of M.tid",
    ),
    (
        "top_kernels",
        "S.display_name name, count(*) total_calls, sum(K.end-K.start) total_duration, avg(K.end-K.start) average, \
         100.0*sum(K.end-K.start)/sum(sum(K.end-K.start))over() percentage",
        "kernel_dispatch K, info_kernel_symbol S of K.kernel_id group by S.display_name order by 3 desc",
    ),
];

/// Makes the tables of an export, whose number is `guid`, and the views.
///
/// # Errors
/// What SQLite says.
pub(crate) fn create(database: &Connection, guid: &str) -> rusqlite::Result<()> {
    let suffix = suffix(guid);
    let mut sql = String::new();
    let mut table = |name: &str, columns: &str| {
        // Writing to a text does not fail.
        let _ = write!(sql, "CREATE TABLE \"rocpd_{name}{suffix}\" ({columns});");
        let _ = write!(sql, "CREATE VIEW \"rocpd_{name}\" AS SELECT * FROM \"rocpd_{name}{suffix}\";");
    };
    table(
        "metadata",
        "\"id\" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, \"tag\" TEXT NOT NULL, \"value\" TEXT NOT NULL",
    );
    for (name, columns) in TABLES {
        table(name, &definitions(columns, guid, &suffix));
    }
    for (name, columns, from) in VIEWS {
        let columns: Vec<String> = columns.split(", ").map(column_of_view).collect();
        let _ = write!(sql, "CREATE VIEW \"{name}\" AS SELECT {} FROM {};", columns.join(", "), joined(from));
    }
    database.execute_batch(&sql)?;
    let mut insert =
        database.prepare(&format!("INSERT INTO \"rocpd_metadata{suffix}\" (tag, value) VALUES (?1, ?2)"))?;
    for (tag, value) in [("schema_version", VERSION), ("uuid", &suffix), ("guid", guid)] {
        insert.execute([tag, value])?;
    }
    Ok(())
}

/// What the names of an export's tables end with.
pub(crate) fn suffix(guid: &str) -> String {
    format!("_{}", guid.replace('-', "_"))
}

/// The definitions of a table's columns.
fn definitions(columns: &str, guid: &str, suffix: &str) -> String {
    let mut all = vec![
        "\"id\" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT".to_owned(),
        format!("\"guid\" TEXT DEFAULT '{guid}' NOT NULL"),
    ];
    for column in columns.split(", ") {
        let (name, what) = column.split_once(' ').unwrap_or((column, "TEXT"));
        let (name, rule) = name.strip_suffix('!').map_or((name, ""), |name| (name, " NOT NULL"));
        let what = match what.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(table) => format!("INTEGER{rule} REFERENCES \"rocpd_{table}{suffix}\" (\"id\") ON UPDATE CASCADE"),
            None if what == "JSONB" => format!("JSONB DEFAULT '{{}}'{rule}"),
            None => format!("{what}{rule}"),
        };
        all.push(format!("\"{name}\" {what}"));
    }
    all.join(", ")
}

/// `EXPRESSION NAME` as SQL.
fn column_of_view(column: &str) -> String {
    let (expression, name) = column.rsplit_once(' ').unwrap_or((column, column));
    format!("{} AS \"{name}\"", expression.replace(".end", ".\"end\""))
}

/// `TABLE A, TABLE B of A.COLUMN` as SQL. Each row refers to rows of its own export.
fn joined(from: &str) -> String {
    let (tables, rest) = from
        .split_once(" group by ")
        .map_or((from, String::new()), |(tables, rest)| (tables, format!(" GROUP BY {rest}")));
    let mut sql = String::new();
    for part in tables.split(", ") {
        match part.split_once(" of ") {
            None => sql = format!("\"rocpd_{}", part.replacen(' ', "\" ", 1)),
            Some((table, place)) => {
                let (table, alias) = table.split_once(' ').unwrap_or((table, table));
                let (other, _) = place.split_once('.').unwrap_or((place, ""));
                let _ = write!(
                    sql,
                    " JOIN \"rocpd_{table}\" {alias} ON {alias}.id = {place} AND {alias}.guid = {other}.guid"
                );
            }
        }
    }
    sql + &rest
}
