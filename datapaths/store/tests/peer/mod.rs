//! What a store at a veth needs of the pair's other end, where requests come from sockets (`tests/bpf/peer.bpf.c`).

use std::error::Error;
use std::os::fd::AsFd;

use libbpf_rs::{Link, ObjectBuilder, TC_EGRESS, TC_INGRESS, TcHook};
use paceline_linux::link::link;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/peer.bpf.o"));

/// From now on requests for one unit leave by this interface as long as packets can be; and answers reach it while the link is kept. The
/// hook is for [`detach`].
pub(crate) fn attach(interface: &str) -> Result<(Link, TcHook), Box<dyn Error + Send + Sync>> {
    let index = link(interface)?.ok_or("there is no such interface; see ip link")?.ifindex() as i32;
    // What it would print is in the error.
    libbpf_rs::set_print(None);
    let object = ObjectBuilder::default().open_memory(OBJECT)?.load()?;
    let program = |name: &str| object.progs_mut().find(|one| one.name() == name).ok_or("the object lacks a program");
    let passes = program("pl_pass")?.attach_xdp(index)?;
    let mut hook = TcHook::new(program("pl_pad")?.as_fd());
    hook.ifindex(index).attach_point(TC_INGRESS | TC_EGRESS);
    hook.create()?;
    Ok((passes, hook.attach_point(TC_EGRESS).attach()?))
}

/// In the network namespace of the interface.
#[allow(dead_code, reason = "a test's namespace ends with it")]
pub(crate) fn detach(mut hook: TcHook) -> libbpf_rs::Result<()> {
    hook.detach()?;
    hook.attach_point(TC_INGRESS | TC_EGRESS).destroy()
}
