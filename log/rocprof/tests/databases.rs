//! Databases of rocpd, asked by Python's sqlite3, and read again.

use std::fs;
use std::path::Path;
use std::process::Command;

use logdur_report::{Line, Log, Row};
use logdur_rocprof::write::{Writer, Written};
use logdur_rocprof::{RocprofError, database};

/// Two ranks with dispatches, copies, a range and a mark; a row without times; a kernel's name that has to be quoted.
const LOG: &str = "\
kernel,dispatch,startNs,endNs,id,agent,queue,grid,workgroup,ldsBytes,scratchBytes,kernargBytes,kernelObject,flags,replaced,kind,bytes,pid,rank,vgprs,agprs,sgprs,tid,code,symbol
# agent 0: gfx90a, AMD Instinct MI210
# device 0: uuid=GPU-a bdf=0000:03:00.0 partition=0 node=1 pid=17
# device 0: uuid=GPU-b bdf=0000:43:00.0 partition=0 node=2 pid=18
\"add(int*, int)\",90,100,140,0,0,1,4096x1x1,256x1x1,512,16,24,0xffff800000001000,,,dispatch,,17,0,32,4,16,172,app#1,_Z3addPii
\"add(int*, int)\",,150,250,1,0,1,64x2x3,64x1x1,0,0,24,0xffff800000001000,,abc,dispatch,,17,0,32,4,16,,app#1,_Z3addPii
scale,,100,107,0,0,1,64x1x1,64x1x1,0,0,8,0x2000,,,dispatch,,18,1,8,0,16,,#2,
scale,,,,1,0,1,64x1x1,64x1x1,0,0,8,0x2000,incomplete,,dispatch,,18,1,8,0,16,,#2,
copy from host to GPU 0,,10,30,2,0,,,,,,,,,,copy,4096,17,0,,,,,,
copy from GPU 0 to host,,300,330,3,0,,,,,,,,,,copy,256,18,1,,,,19,,
step 3,,5,400,4,,,,,,,,,,,range,,17,0,,,,171,,
here,,7,7,5,,,,,,,,,,,mark,,17,0,,,,171,,
";

fn written(text: &str, to: &Path) -> Written {
    let mut writer = Writer::new(to).unwrap();
    writer.read("log.csv", &mut Log::new(text.as_bytes())).unwrap();
    writer.finish().unwrap()
}

/// What Python's sqlite3 answers, a line for each row.
fn asked(database: &Path, sql: &str) -> String {
    const ASK: &str = "import sqlite3, sys\n\
        for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(*row, sep='|')";
    let output = Command::new("python3").args(["-c", ASK]).arg(database).arg(sql).output().unwrap();
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn rows(database: &Path) -> Vec<Row<'static>> {
    let mut log = Log::new(database::open(database).unwrap());
    let mut all = Vec::new();
    while let Some(line) = log.next_line().unwrap() {
        match line {
            Line::Row(row) => {
                let (kernel, code) = (row.kernel.into_owned().into(), row.code.into_owned().into());
                all.push(Row { kernel, code, ..row });
            }
            Line::Unreadable(why) => panic!("{why}"),
            _ => {}
        }
    }
    all
}

#[test]
fn every_reference_of_a_database_leads_to_a_row_and_each_view_finds_all_of_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.db");
    let written = written(LOG, &file);
    assert_eq!((written.rows, written.without_times, written.read.unreadable), (7, 1, 0));
    assert_eq!(asked(&file, "PRAGMA foreign_key_check"), "");
    assert_eq!(asked(&file, "PRAGMA integrity_check"), "ok\n");
    let sums = "SELECT name, pid, count(*), sum(duration), max(agent_abs_index), max(queue) FROM kernels GROUP BY name, pid ORDER BY pid";
    assert_eq!(asked(&file, sums), "add(int*, int)|17|2|140|1|Queue 1\nscale|18|1|7|1|Queue 1\n");
    let shapes = "SELECT grid_x, grid_y, grid_z, workgroup_x, lds_size, scratch_size, vgpr_count, accum_vgpr_count, sgpr_count \
        FROM kernels WHERE pid = 17 ORDER BY start";
    assert_eq!(asked(&file, shapes), "4096|1|1|256|512|16|32|4|16\n64|2|3|64|0|0|32|4|16\n");
    let copies = "SELECT name, pid, size, duration, src_agent_type, dst_agent_type FROM memory_copies ORDER BY start";
    let expected = "MEMORY_COPY_HOST_TO_DEVICE|17|4096|20|CPU|GPU\nMEMORY_COPY_DEVICE_TO_HOST|18|256|30|GPU|CPU\n";
    assert_eq!(asked(&file, copies), expected);
    let names = "SELECT DISTINCT kernel_name, display_name FROM rocpd_info_kernel_symbol ORDER BY display_name";
    assert_eq!(asked(&file, names), "_Z3addPii|add(int*, int)\nscale|scale\n");
    let threads =
        "SELECT tid, duration FROM kernels UNION ALL SELECT tid, duration FROM memory_copies ORDER BY duration";
    assert_eq!(
        asked(&file, threads),
        "0|7\n0|20\n19|30\n172|40\n0|100\n",
        "a thread that is not known is none of the process's"
    );
    assert_eq!(asked(&file, "SELECT name, tid, duration FROM regions ORDER BY start"), "step 3|171|395\nhere|171|0\n");
    assert_eq!(asked(&file, "SELECT pid, start, \"end\" FROM processes ORDER BY pid"), "17|5|400\n18|100|330\n");
    assert_eq!(
        asked(&file, "SELECT name, total_calls, total_duration FROM top_kernels"),
        "add(int*, int)|2|140\nscale|1|7\n"
    );
    let tables = "SELECT count(*) FROM sqlite_master T WHERE type = 'table' AND name LIKE 'rocpd%' AND NOT EXISTS \
        (SELECT 1 FROM sqlite_master V, rocpd_metadata M WHERE M.tag = 'uuid' AND V.type = 'view' AND T.name = V.name || M.value)";
    assert_eq!(asked(&file, tables), "0\n", "each table has a view with its name");
}

#[test]
fn a_database_read_again_has_the_rows_that_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("log.db");
    written(LOG, &file);
    let mut log = Log::new(LOG.as_bytes());
    let mut expected = Vec::new();
    while let Some(line) = log.next_line().unwrap() {
        if let Line::Row(row) = line
            && row.times.is_some()
        {
            expected.push(format!("{row:?}"));
        }
    }
    let replaced = |row: &Row<'_>| format!("{row:?}");
    let found: Vec<String> = rows(&file).iter().map(replaced).collect();
    // rocpd has no place for what ran instead, nor for the doorbell; the latter is kept beside the row.
    let mut expected: Vec<String> =
        expected.iter().map(|row| row.replace("replaced: true", "replaced: false")).collect();
    let mut found: Vec<String> = found.iter().map(|row| numbered(row)).collect();
    expected = expected.iter().map(|row| numbered(row)).collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

/// A row without the number of its queue, which the database gives anew.
fn numbered(row: &str) -> String {
    let (before, after) = row.split_once(" queue: ").unwrap();
    format!("{before}{}", after.split_once(',').unwrap().1)
}

#[test]
fn merged_databases_are_read_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = [folder.path().join("a.db"), folder.path().join("b.db")];
    let of_rank = |rank: &str| {
        let mine = |line: &&str| line.starts_with("kernel") || line.starts_with('#') || line.contains(rank);
        LOG.lines().filter(mine).fold(String::new(), |all, line| all + line + "\n")
    };
    written(&of_rank(",17,0,"), &files[0]);
    written(&of_rank(",18,1,"), &files[1]);
    // As rocpd merges: the tables of both, and views over both.
    const MERGE: &str = "import sqlite3, sys\n\
        to = sqlite3.connect(sys.argv[1])\n\
        views = {}\n\
        for file in sys.argv[2:]:\n\
        \x20   of = sqlite3.connect(file)\n\
        \x20   uuid = of.execute(\"SELECT value FROM rocpd_metadata WHERE tag = 'uuid'\").fetchone()[0]\n\
        \x20   for line in of.iterdump():\n\
        \x20       if 'sqlite_sequence' not in line and not line.startswith('CREATE VIEW'): to.executescript(line if line.endswith(';') else line + ';') if line not in ('BEGIN TRANSACTION;', 'COMMIT;') else None\n\
        \x20   for (name,) in of.execute(\"SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd%'\"):\n\
        \x20       views.setdefault(name.removesuffix(uuid), []).append(name)\n\
        for view, tables in views.items():\n\
        \x20   to.execute(f'CREATE VIEW \"{view}\" AS ' + ' UNION ALL '.join(f'SELECT * FROM \"{t}\"' for t in tables))\n\
        to.commit()";
    let merged = folder.path().join("merged.db");
    let output = Command::new("python3").args(["-c", MERGE]).arg(&merged).args(&files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let whole = folder.path().join("whole.db");
    written(LOG, &whole);
    let sorted = |file: &Path| {
        let mut all: Vec<String> = rows(file).iter().map(|row| numbered(&format!("{row:?}"))).collect();
        all.sort();
        all
    };
    assert_eq!(sorted(&merged), sorted(&whole));
}

#[test]
fn what_is_no_database_of_rocpd_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("other.db");
    let error = |file: &Path| match database::open(file) {
        Ok(_) => panic!("{} was read", file.display()),
        Err(error) => error.to_string(),
    };
    asked(&file, "CREATE TABLE t (a)");
    assert_eq!(
        error(&file),
        RocprofError::Schema("a database without the table rocpd_metadata".to_owned()).to_string()
    );
    written(LOG, &folder.path().join("log.db"));
    let newer = folder.path().join("newer.db");
    asked(&newer, "CREATE TABLE rocpd_metadata AS SELECT 'schema_version' AS tag, '4.0.0' AS value");
    assert!(error(&newer).ends_with("schema version 3, found version 4.0.0"), "{}", error(&newer));
    fs::write(&file, "no database").unwrap();
    assert!(error(&file).contains("not a database"), "{}", error(&file));
    // One that was cut off gives an error, and no row less.
    let whole = fs::read(folder.path().join("log.db")).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let mut log = match database::open(&file) {
        Ok(lines) => Log::new(lines),
        Err(_) => return,
    };
    let failed = loop {
        match log.next_line() {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    };
    assert!(failed);
}
