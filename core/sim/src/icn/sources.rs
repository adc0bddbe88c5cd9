//! Sources of a fetch that come, move and go while a world runs, numbered in the order in which they came.

use std::net::SocketAddr;

use paceline_experiment::icn::FetchNode;

use crate::node::NodeId;
use crate::world::World;

impl World<'_> {
    /// Another source of a fetch: the router at this address, which is asked from a node of the graph.
    pub fn add_source(&mut self, fetch: NodeId<FetchNode>, at: u32, router: SocketAddr) {
        let own = self.bind_any(fetch, at);
        self.visit(fetch, |node, now| node.add_source(now, own, router));
    }

    /// The receiver loses the address from which it asks this source, and whatever is on its way to it.
    pub fn cut_source(&mut self, fetch: NodeId<FetchNode>, index: usize) {
        if let Some(own) = self.visit(fetch, |node, _| node.cut_source(index)) {
            self.unbind(own);
        }
    }

    /// The receiver has another address for this source: at another node of the graph, or the same.
    pub fn move_source(&mut self, fetch: NodeId<FetchNode>, index: usize, at: u32) {
        self.cut_source(fetch, index);
        let own = self.bind_any(fetch, at);
        self.visit(fetch, |node, now| node.move_source(now, index, own));
    }

    /// This source is asked no more.
    pub fn drop_source(&mut self, fetch: NodeId<FetchNode>, index: usize) {
        self.cut_source(fetch, index);
        self.visit(fetch, |node, now| node.drop_source(now, index));
    }
}
