//! A timeline in Perfetto's protobuf format, for ui.perfetto.dev. Numbers of fields are those of Perfetto's
//! `protos/perfetto/trace/`; only the fields that are written are declared.

use std::io::{self, Write};

use prost::Message;

use crate::rows::Kind;
use crate::timeline::{Slice, Timeline, Track};

/// `trace/trace_packet.proto`, `TracePacket`.
#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// `trace/track_event/track_event.proto`, `TrackEvent`.
#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    r#type: i32,
    #[prost(uint64, tag = "10")]
    name_iid: u64,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(int64, optional, tag = "30")]
    counter_value: Option<i64>,
    #[prost(fixed64, optional, tag = "47")]
    flow_ids: Option<u64>,
    #[prost(fixed64, optional, tag = "48")]
    terminating_flow_ids: Option<u64>,
}

/// `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;

/// `trace/track_event/debug_annotation.proto`, `DebugAnnotation`.
#[derive(Clone, PartialEq, Message)]
struct DebugAnnotation {
    #[prost(bool, optional, tag = "2")]
    bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    uint_value: Option<u64>,
    #[prost(string, tag = "10")]
    name: String,
    #[prost(string, optional, tag = "6")]
    string_value: Option<String>,
}

/// `trace/interned_data/interned_data.proto`, `InternedData`.
#[derive(Clone, PartialEq, Message)]
struct InternedData {
    #[prost(message, repeated, tag = "2")]
    event_names: Vec<EventName>,
}

/// `trace/track_event/track_event.proto`, `EventName`.
#[derive(Clone, PartialEq, Message)]
struct EventName {
    #[prost(uint64, tag = "1")]
    iid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

/// `trace/track_event/track_descriptor.proto`, `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(uint64, tag = "5")]
    parent_uuid: u64,
    #[prost(message, optional, tag = "8")]
    counter: Option<CounterDescriptor>,
}

/// `trace/track_event/counter_descriptor.proto`, `CounterDescriptor`, none of whose fields are needed.
#[derive(Clone, Copy, PartialEq, Message)]
struct CounterDescriptor {}

/// The sequence that all packets are of.
const SEQUENCE: u32 = 1;
/// `TracePacket.SequenceFlags`: interned data begins anew; it is needed.
const INCREMENTAL_STATE_CLEARED: u32 = 1;
const NEEDS_INCREMENTAL_STATE: u32 = 2;
/// The field of `trace/trace.proto`, `Trace.packet`, and that its value has a length: the key before each packet.
const PACKET: u8 = 1 << 3 | 2;

/// Writes the timeline: a track for each GPU and each process of a log, below it one for each lane. A GPU also has one that counts
/// kernels, and one for the doorbells of each queue: a flow leads from a doorbell to the start of its kernel.
///
/// # Errors
/// When it cannot be written.
pub fn write(timeline: &Timeline, tracks: &[Track], to: &mut impl Write) -> io::Result<()> {
    let names = timeline.kernels.iter().zip(1..).map(|(name, iid)| EventName { iid, name: name.clone() });
    let mut trace = Trace { timeline, to, buffer: Vec::new(), uuid: 0, flow: 0 };
    trace.packet(TracePacket {
        sequence_flags: INCREMENTAL_STATE_CLEARED,
        interned_data: Some(InternedData { event_names: names.collect() }),
        ..TracePacket::default()
    })?;
    tracks.chunk_by(Track::is_beside).try_for_each(|beside| trace.owner(beside))
}

/// A trace that is being written.
struct Trace<'t, W> {
    timeline: &'t Timeline,
    to: &'t mut W,
    /// An encoded packet.
    buffer: Vec<u8>,
    /// The last track's number.
    uuid: u64,
    /// The last flow's number.
    flow: u64,
}

impl<W: Write> Trace<'_, W> {
    fn packet(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: SEQUENCE, ..packet };
        self.buffer.clear();
        self.buffer.push(PACKET);
        // A vector has room for everything.
        let _ = packet.encode_length_delimited(&mut self.buffer);
        self.to.write_all(&self.buffer)
    }

    /// Writes a track below its parent, and returns its number.
    fn track(&mut self, name: String, parent_uuid: u64, counter: Option<CounterDescriptor>) -> io::Result<u64> {
        self.uuid += 1;
        let descriptor = TrackDescriptor { uuid: self.uuid, name, parent_uuid, counter };
        self.packet(TracePacket { track_descriptor: Some(descriptor), ..TracePacket::default() })?;
        Ok(self.uuid)
    }

    /// Writes a GPU or process of a log with its lanes.
    fn owner(&mut self, lanes: &[Track]) -> io::Result<()> {
        let Some(first) = lanes.first() else { return Ok(()) };
        let owner = self.track(self.timeline.owner_name(first), 0, None)?;
        self.running(lanes, owner)?;
        // Lanes of a queue follow each other: the first one makes the track of its doorbells.
        let mut doorbells = (None, 0);
        for lane in lanes {
            let track = self.track(lane.name(), owner, None)?;
            if lane.is_of_queue() && doorbells.0 != Some((lane.process, lane.source)) {
                doorbells =
                    (Some((lane.process, lane.source)), self.track(format!("{} doorbells", lane.name()), owner, None)?);
            }
            self.lane(lane, track, doorbells.1)?;
        }
        Ok(())
    }

    /// Writes how many kernels run, if any do.
    fn running(&mut self, lanes: &[Track], owner: u64) -> io::Result<()> {
        let running = Timeline::running(lanes);
        if running.is_empty() {
            return Ok(());
        }
        let track_uuid = self.track("running kernels".to_owned(), owner, Some(CounterDescriptor {}))?;
        for (time, running) in running {
            let value = Some(i64::try_from(running).unwrap_or(i64::MAX));
            let counter = TrackEvent { r#type: COUNTER, track_uuid, counter_value: value, ..TrackEvent::default() };
            self.packet(event(time, counter))?;
        }
        Ok(())
    }

    /// Writes the slices of a lane on its track, and their doorbells on another one.
    fn lane(&mut self, lane: &Track, track_uuid: u64, doorbells: u64) -> io::Result<()> {
        let end = || TrackEvent { r#type: SLICE_END, track_uuid, ..TrackEvent::default() };
        // Ends of the slices that contain the next one, if it begins before them.
        let mut open: Vec<u64> = Vec::new();
        for slice in &lane.slices {
            while let Some(time) = open.pop_if(|time| *time <= slice.times.0) {
                self.packet(event(time, end()))?;
            }
            let name_iid = u64::from(slice.kernel) + 1;
            let mut begin = TrackEvent {
                r#type: SLICE_BEGIN,
                track_uuid,
                name_iid,
                debug_annotations: annotations(self.timeline, slice),
                ..TrackEvent::default()
            };
            if slice.kind == Kind::Mark {
                self.packet(event(slice.times.0, TrackEvent { r#type: INSTANT, ..begin }))?;
                continue;
            }
            if let (Kind::Dispatch, Some(dispatch)) = (slice.kind, slice.dispatch) {
                begin.terminating_flow_ids = Some(self.doorbell(dispatch, name_iid, doorbells)?);
            }
            self.packet(event(slice.times.0, begin))?;
            open.push(slice.times.1);
        }
        while let Some(time) = open.pop() {
            self.packet(event(time, end()))?;
        }
        Ok(())
    }

    /// Writes the doorbell of a dispatch, and returns the flow that begins there.
    fn doorbell(&mut self, time: u64, name_iid: u64, track_uuid: u64) -> io::Result<u64> {
        self.flow += 1;
        let flow_ids = Some(self.flow);
        let doorbell = TrackEvent { r#type: INSTANT, track_uuid, name_iid, flow_ids, ..TrackEvent::default() };
        self.packet(event(time, doorbell))?;
        Ok(self.flow)
    }
}

fn event(time: u64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(time),
        track_event: Some(event),
        sequence_flags: NEEDS_INCREMENTAL_STATE,
        ..TracePacket::default()
    }
}

/// What a slice has as arguments.
fn annotations(timeline: &Timeline, slice: &Slice) -> Vec<DebugAnnotation> {
    let named = |name: &str| DebugAnnotation { name: name.to_owned(), ..DebugAnnotation::default() };
    let shape = timeline.shapes.get(slice.shape as usize).filter(|shape| !shape.is_empty()).cloned();
    let mut all = match slice.kind {
        Kind::Dispatch => shape
            .map(|shape| DebugAnnotation { string_value: Some(shape), ..named("grid / workgroup") })
            .into_iter()
            .collect(),
        Kind::Copy { bytes } => vec![DebugAnnotation { uint_value: Some(bytes), ..named("bytes") }],
        Kind::Range | Kind::Mark => Vec::new(),
    };
    let asker = slice.thread.filter(|_| !matches!(slice.kind, Kind::Range | Kind::Mark));
    all.extend(asker.map(|tid| DebugAnnotation { uint_value: Some(tid), ..named("tid") }));
    let delay = slice.dispatch.map(|dispatch| slice.times.0 - dispatch);
    all.extend(delay.map(|ns| DebugAnnotation { uint_value: Some(ns), ..named("doorbell to start (ns)") }));
    all.extend(slice.replaced.then(|| DebugAnnotation { bool_value: Some(true), ..named("replaced") }));
    all
}
