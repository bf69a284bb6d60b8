use super::*;

const LOG: &str = "kernel,dispatch,startNs,endNs,agent,queue,grid,workgroup,replaced,pid,rank\n\
    # agent 0: gfx90a, MI210\n\
    \"f\",100,110,150,0,1,64x1x1,64x1x1,,17,0\n\
    \"g\",100,120,130,0,2,64x1x1,64x1x1,\"ab\",17,0\n\
    \"f\",200,210,230,0,1,128x1x1,64x1x1,,18,1\n\
    \"f\",200,,,0,1,64x1x1,64x1x1,,18,1\n\
    \"f\",200,300,290,1,1,64x1x1,64x1x1,,19,\n\
    torn\n\
    # account: pid=7 seen=6 logged=5\n";

fn totals(by: By) -> Totals {
    let mut summary = Summary::new(by);
    let mut rows = 0;
    summary.read("a.csv", &mut Log::new(LOG.as_bytes()), |_, _| rows += 1).unwrap();
    assert_eq!(rows, 5);
    summary.totals()
}

#[test]
fn kernels_are_sorted_by_their_time_and_rows_without_times_are_counted() {
    let all = totals(By::Kernel);
    let short: Vec<_> =
        all.groups.iter().map(|g| (g.name.as_deref(), g.calls, g.durations.total_ns, g.replaced)).collect();
    assert_eq!(short, [(Some("f"), 4, 60, 0), (Some("g"), 1, 10, 1)]);
    assert!((all.groups[0].share - 60.0 / 70.0).abs() < 1e-9 && all.groups[0].shapes.len() == 2);
    let rows = &all.rows;
    assert_eq!((rows.rows, rows.without_times, rows.reversed, rows.unreadable), (5, 1, 1, 1));
    assert!(rows.first_unreadable.as_ref().is_some_and(|said| said.starts_with("a.csv:8: expected 11 cells")));
    assert_eq!(all.accounts, BTreeMap::from([("seen".to_owned(), 6), ("logged".to_owned(), 5)]));
}

#[test]
fn a_gpus_time_is_busy_idle_or_shared() {
    let all = totals(By::Gpu);
    let gpu = &all.gpus[0];
    assert_eq!((gpu.name.as_str(), gpu.calls, gpu.span_ns, gpu.busy_ns), ("gfx90a, MI210", 4, 120, 60));
    assert_eq!((gpu.gaps, gpu.idle_ns, gpu.longest_gap_ns, gpu.delay_p95_ns), (1, 60, 60, Some(20)));
    assert!((gpu.concurrency - 70.0 / 60.0).abs() < 1e-9 && gpu.delay_median_ns == Some(10.0));
    assert_eq!((all.gpus[1].span_ns, all.gpus[1].delay_median_ns), (0, None));
}

#[test]
fn rows_are_grouped_by_shape_queue_process_and_log() {
    let groups = |by| totals(by).groups.len();
    assert_eq!((groups(By::Shape), groups(By::Queue), groups(By::Gpu), groups(By::Log)), (3, 4, 2, 1));
    assert_eq!(totals(By::Queue).groups[2].queue, Some(2));
    let processes: Vec<_> = totals(By::Process).groups.iter().map(|g| (g.rank, g.pid, g.calls)).collect();
    assert_eq!(processes, [(Some(0), Some(17), 2), (Some(1), Some(18), 2), (None, Some(19), 1)]);
}

#[test]
fn ranks_that_each_see_one_gpu_are_added_up_as_so_many_gpus() {
    let mut text = "kernel,dispatch,startNs,endNs,agent,queue,pid,rank\n".to_owned();
    for rank in 0..2 {
        text += &format!("# agent 0: gfx90a, MI210\n# device 0: uuid=GPU-{rank} bdf=0000:0{rank}:00.0 pid={rank}7\n");
    }
    text += "\"f\",0,10,20,0,1,07,0\n\"f\",0,10,40,0,1,17,1\n\"f\",0,50,60,0,1,18,1\n";
    text += "# device 0: uuid=GPU-1 bdf=0000:01:00.0 pid=18\n\"f\",0,70,80,0,1,18,1\n";
    // The third process is described after its first row: it has the position alone.
    let totals = |by| {
        let mut summary = Summary::new(by);
        summary.read("a.csv", &mut Log::new(text.as_bytes()), |_, _| ()).unwrap();
        summary.totals()
    };
    let gpus: Vec<_> = totals(By::Gpu).gpus.iter().map(|g| (g.agent, g.bdf.clone(), g.calls, g.busy_ns)).collect();
    let expected = [(0, "0000:00:00.0", 1, 10), (1, "0000:01:00.0", 2, 40), (2, "", 1, 10)];
    assert_eq!(gpus, expected.map(|(number, bdf, calls, busy)| (number, bdf.to_owned(), calls, busy)));
    let queues: Vec<_> = totals(By::Queue).groups.iter().map(|g| (g.agent, g.pid, g.calls)).collect();
    assert_eq!(queues.len(), 4, "{queues:?}");
    let ranks: Vec<_> = totals(By::Rank).groups.iter().map(|g| (g.rank, g.pid, g.calls)).collect();
    assert_eq!(ranks, [(Some(1), None, 3), (Some(0), None, 1)]);
}

#[test]
fn dispatches_are_grouped_by_their_call_sites_which_each_process_numbers() {
    let mut text = "kernel,startNs,endNs,pid,site\n".to_owned();
    for (kernel, start, pid, site) in
        [("f", 10, 7, "1"), ("f", 20, 7, "2"), ("f", 30, 8, "1"), ("f", 40, 7, "1"), ("g", 50, 7, "")]
    {
        text += &format!("\"{kernel}\",{start},{},{pid},{site}\n", start + 5);
    }
    text += "# site 1: pid=7 frames=[\"/app+0x10\"]\n# site 2: pid=7 frames=[]\n";
    let mut summary = Summary::new(By::Site);
    summary.read("a.csv", &mut Log::new(text.as_bytes()), |_, _| ()).unwrap();
    let totals = summary.totals();
    let mut groups: Vec<_> =
        totals.groups.iter().map(|g| (g.name.as_deref(), g.pid, g.site, g.calls, g.stack.clone())).collect();
    groups.sort();
    let stack = |frames: &[&str]| Some(frames.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>());
    let expected = [
        (Some("f"), Some(7), Some(1), 2, stack(&["/app+0x10"])),
        (Some("f"), Some(7), Some(2), 1, stack(&[])),
        (Some("f"), Some(8), Some(1), 1, None),
        (Some("g"), Some(7), None, 1, None),
    ];
    assert_eq!(groups, expected);
}
