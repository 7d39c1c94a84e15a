//! What jobs share: disks, servers, caches, links and worker nodes, and the way from a storage to a node through them.

use crate::error::{not_negative, positive, Error, Result};
use crate::fluid::{Fluid, ResourceId};

/// A disk, or a group of disks that serves as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Operations a second; None where only the rate counts.
    pub operations_per_s: Option<f64>,
}

/// A file server, as its network card.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Bytes a second.
    pub bytes_per_s: f64,
}

/// A link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// The round trip over it.
    pub round_trip_s: f64,
}

/// A cache between a storage and its jobs: it holds what was read last.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// How much it holds.
    pub size_bytes: f64,
    /// The storage that it reads from for itself: disk, server, and the links to nodes.
    pub storage: Storage,
}

/// A storage element: files on a disk of a server, and the links that lead to nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// The number of its disk.
    pub disk: Option<usize>,
    /// The number of its server.
    pub server: Option<usize>,
    /// The numbers of the links between it and nodes.
    pub links: Vec<usize>,
    /// Bytes that a stream of TCP has on its way at most.
    pub window_bytes: Option<f64>,
    /// Streams over which one request comes.
    pub streams: usize,
    /// The number of the cache before it.
    pub cache: Option<usize>,
}

/// Worker nodes of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Nodes {
    /// How many there are.
    pub count: usize,
    /// Cores of each.
    pub cores: usize,
    /// Jobs that each takes at a time.
    pub slots: usize,
    /// Bytes a second of each one's network card.
    pub bytes_per_s: f64,
    /// How fast its cores are, in terms of those of the plans.
    pub speed: f64,
}

/// All that jobs share.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Platform {
    /// Disks.
    pub disks: Vec<Disk>,
    /// Servers.
    pub servers: Vec<Server>,
    /// Links.
    pub links: Vec<Link>,
    /// Caches.
    pub caches: Vec<Cache>,
    /// Storage elements, which blocks name.
    pub storages: Vec<Storage>,
    /// Worker nodes.
    pub nodes: Vec<Nodes>,
}

/// What a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes of a disk.
    Disk,
    /// Operations of a disk.
    Operations,
    /// Bytes of a server's network card.
    Server,
    /// Bytes of a link.
    Link,
    /// Seconds of the cores of a node; its number is that of its kind of nodes.
    Cores,
    /// Bytes of a node's network card, likewise.
    Network,
}

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Operations => "operations",
            Self::Server => "server",
            Self::Link => "link",
            Self::Cores => "cores",
            Self::Network => "network",
        }
    }
}

/// The way of blocks from a storage to a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path {
    /// Resources that bytes pass.
    pub(crate) bytes: Vec<ResourceId>,
    /// The resource that operations take.
    pub(crate) operations: Option<ResourceId>,
    pub(crate) round_trip_s: f64,
    /// Bytes a second that a request gets at most.
    pub(crate) bound: f64,
}

/// A worker node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) cores: ResourceId,
    network: ResourceId,
    pub(crate) slots: usize,
    pub(crate) speed: f64,
}

/// The resources of a platform.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// What each resource is, the number of what it belongs to, and what it gives a second.
    pub(crate) resources: Vec<(Kind, usize, f64)>,
    pub(crate) nodes: Vec<Node>,
    disks: Vec<(ResourceId, Option<ResourceId>)>,
    servers: Vec<ResourceId>,
    links: Vec<ResourceId>,
}

impl Platform {
    /// Makes the resources of this platform.
    pub(crate) fn build(&self, fluid: &mut Fluid) -> Result<Layout> {
        let mut layout = Layout::default();
        for (number, one) in self.disks.iter().enumerate() {
            let bytes = layout.add(fluid, Kind::Disk, number, one.bytes_per_s)?;
            let operations =
                one.operations_per_s.map(|rate| layout.add(fluid, Kind::Operations, number, rate)).transpose()?;
            layout.disks.push((bytes, operations));
        }
        for (number, one) in self.servers.iter().enumerate() {
            let id = layout.add(fluid, Kind::Server, number, one.bytes_per_s)?;
            layout.servers.push(id);
        }
        for (number, one) in self.links.iter().enumerate() {
            not_negative(one.round_trip_s, "a round trip")?;
            let id = layout.add(fluid, Kind::Link, number, one.bytes_per_s)?;
            layout.links.push(id);
        }
        for (kind, one) in self.nodes.iter().enumerate() {
            if one.slots == 0 {
                return Err(Error("a node takes no jobs: its slots are 0".to_owned()));
            }
            positive(one.speed, "the speed of a node")?;
            for _ in 0..one.count {
                let cores = layout.add(fluid, Kind::Cores, kind, one.cores as f64)?;
                let network = layout.add(fluid, Kind::Network, kind, one.bytes_per_s)?;
                layout.nodes.push(Node { cores, network, slots: one.slots, speed: one.speed });
            }
        }
        if layout.nodes.is_empty() {
            return Err(Error("there is no worker node".to_owned()));
        }
        self.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<()> {
        for one in &self.caches {
            not_negative(one.size_bytes, "the size of a cache")?;
        }
        for one in self.storages.iter().chain(self.caches.iter().map(|cache| &cache.storage)) {
            let is_known = |number: Option<usize>, count: usize| number.is_none_or(|number| number < count);
            let links = one.links.iter().all(|link| *link < self.links.len());
            let known = is_known(one.disk, self.disks.len()) && is_known(one.server, self.servers.len());
            if !links || !known || !is_known(one.cache, self.caches.len()) {
                return Err(Error("a storage names a disk, server, link or cache that there is not".to_owned()));
            }
            let mut sorted = one.links.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != one.links.len() {
                return Err(Error("a storage names a link twice".to_owned()));
            }
            if one.streams == 0 {
                return Err(Error("a request comes over 0 streams; give at least 1".to_owned()));
            }
            one.window_bytes.map_or(Ok(1.0), |window| positive(window, "the window of a stream"))?;
        }
        Ok(())
    }
}

impl Layout {
    fn add(&mut self, fluid: &mut Fluid, kind: Kind, number: usize, units_per_s: f64) -> Result<ResourceId> {
        positive(units_per_s, &format!("what {} {number} gives a second", kind.name()))?;
        self.resources.push((kind, number, units_per_s));
        Ok(fluid.add_resource(units_per_s))
    }

    /// The way from a storage to a node.
    pub(crate) fn path(&self, platform: &Platform, storage: &Storage, node: usize) -> Path {
        let mut path = Path { bound: f64::INFINITY, ..Path::default() };
        if let Some(disk) = storage.disk {
            let (bytes, operations) = self.disks[disk];
            path.bytes.push(bytes);
            path.operations = operations;
        }
        path.bytes.extend(storage.server.map(|server| self.servers[server]));
        path.bytes.extend(storage.links.iter().map(|link| self.links[*link]));
        path.bytes.push(self.nodes[node].network);
        path.round_trip_s = storage.links.iter().map(|link| platform.links[*link].round_trip_s).sum();
        if let Some(window) = storage.window_bytes.filter(|_| path.round_trip_s > 0.0) {
            path.bound = window * storage.streams as f64 / path.round_trip_s;
        }
        path
    }
}
