//! A log in records that has everything, and what a log in text has of the same. Fuzzing changes it, too.

use std::sync::atomic::Ordering;

use logdur_journal::clock::Line;
use logdur_journal::columns::{self, Late, Row};
use logdur_journal::lines::{Format, Lines};
use logdur_journal::packed::{Packer, Room, Source};
use logdur_journal::{Kernel, Naming, Operation, Process, Record, Registers, Shape, Times, flag};

/// Dispatches of each process.
pub(crate) const EACH: u64 = 120;

const HOST: Line = Line { tick: 1000, ns: 50_000_000_000, ns_per_tick: 0.454_545 };
const AGENT: Line = Line { tick: 77, ns: 50_000_000_400, ns_per_tick: 10.0 };

fn kernels() -> Vec<(u32, &'static Kernel)> {
    let kernel = |number: u32, operation, symbol: &str, replaced: &str| {
        let kernel = Kernel {
            operation,
            symbol: symbol.to_owned(),
            kernarg_size: (number != 2).then_some(24 + number),
            registers: Registers { vgprs: Some(32), agprs: None, sgprs: Some(number) },
            replaced: replaced.to_owned(),
            code: if number == 1 { "lib \"a\".so#12".to_owned() } else { String::new() },
        };
        (number, &*Box::leak(Box::new(kernel)))
    };
    vec![
        kernel(1, Operation::Dispatch, "_Z3addPf", ""),
        kernel(2, Operation::Dispatch, "=1+\"x\"", "1a2b3c4d5e6f"),
        kernel(3, Operation::Copy, "copy from host to GPU 0", ""),
        kernel(4, Operation::Range, "step, one", ""),
        kernel(5, Operation::Mark, "here\u{1b}", ""),
    ]
}

/// The log of two processes, in chunks and as text in a form.
pub(crate) fn whole(text: Format) -> (Vec<u8>, Vec<u8>) {
    let kernels = kernels();
    let (mut chunks, mut lines) = (Vec::new(), Lines::of(text).header().into_bytes());
    for (pid, naming, rank) in [(17, Naming::Both, None), (18, Naming::Mangled, Some(3))] {
        let process = Process { pid, rank };
        let mut packer = Packer::new(u64::from(pid) << 32 | 5);
        packer.begin(&mut chunks, process, naming);
        for (form, to) in [(Format::Records, &mut chunks), (text, &mut lines)] {
            let form = Lines::of(form);
            form.run(to, pid, "a run");
            form.records(to, pid, "/dev/shm/logdur.17.records".as_ref());
            form.clocks(to, 50_000_000_000, 1_700_000_000_000_000_000);
            form.agent(to, 0, "gfx90a", "A \"GPU\"", "uuid=1 pid=17");
            form.agent(to, 1, "gfx942", "Another", "");
            form.site(to, pid.into(), 2, &["lib.so+0x10".to_owned(), "0x20".to_owned()]);
            form.notice(to, "a notice, \"quoted\" µ");
        }
        for n in 0..EACH {
            let number = (n * 7 % 6) as u32;
            let known = kernels.iter().find(|(of, _)| *of == number).map(|(_, kernel)| *kernel);
            let (record, times) = (Record::default(), Times::default());
            record.id.store(n * 3 + (n / 100) * 5_000_000_000, Ordering::Relaxed);
            record.dispatch.store(2000 + n * 900, Ordering::Relaxed);
            record.thread.store((n % 3) as u32 * 4_000_000, Ordering::Relaxed);
            record.site.store((n % 4) as u32, Ordering::Relaxed);
            record.kernel_object().store(0x7f00_1000 + u64::from(number) * 64, Ordering::Relaxed);
            let grid = [64 << (n % 3), 1 + (n % 2) as u32, 1];
            record.set_shape(Shape {
                kernel: number,
                grid,
                workgroup: [64, 1, 1],
                scratch_bytes: 16,
                lds_bytes: (n % 2) as u32,
            });
            record.set_flags(match n % 29 {
                0 => flag::SHARED_SIGNAL,
                1 => flag::NO_TIMES,
                2 => flag::INCOMPLETE | flag::BARRIER,
                3 => flag::NOT_INSTRUMENTED,
                _ => flag::BARRIER,
            });
            let start = 1_000_000 + n * 4000;
            times.start.store(start, Ordering::Relaxed);
            // Some end before they start, some have no end.
            times.end.store(if n % 31 == 5 { 0 } else { start + n - 2 * (n % 11) }, Ordering::Relaxed);
            let late = if n % 37 == 36 { Some(Late::TimesLost) } else { None };
            let operation = known.map_or(Operation::Dispatch, |kernel| kernel.operation);
            let agent = match operation {
                Operation::Dispatch => (n / 40 % 2) as usize,
                _ => columns::NO_GPU,
            };
            let host = (n > 20).then_some(HOST);
            let clock = (n > 40).then_some(AGENT).filter(|_| operation == Operation::Dispatch);
            let source = Source { record: &record, times: &times, queue: n / 50, agent, host, clock, late };
            let room = packer.row(&mut chunks, &source, known);
            if room != Room::More {
                packer.close(&mut chunks);
            }
            if room == Room::None {
                assert_eq!(packer.row(&mut chunks, &source, known), Room::More);
            }
            let row = Row {
                kernel: &known.map_or(String::new(), |kernel| kernel.shown(naming)),
                symbol: &known.map_or(String::new(), |kernel| kernel.shown_beside(naming)),
                known,
                process,
                dispatch: columns::dispatch(&record, operation, host),
                times: columns::times(&record, operation, &times, clock).filter(|_| late.is_none()),
                agent,
                queue: n / 50,
                shape: record.shape(),
                record: &record,
                late,
            };
            Lines::of(text).row(&mut lines, &row);
        }
        packer.close(&mut chunks);
        let counters = [("seen", EACH + 2), ("logged", EACH), ("filtered", 2)];
        Lines::of(Format::Records).account(&mut chunks, pid, &counters);
        Lines::of(text).account(&mut lines, pid, &counters);
    }
    (chunks, lines)
}
