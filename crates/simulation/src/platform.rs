//! Shared resources (disks, servers, caches, links and worker nodes), and the paths from storages to nodes.

use crate::error::{not_negative, positive, Error, Result};
use crate::fluid::{Fluid, ResourceId};

/// A disk, or a group of disks that acts as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Disk {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Operations per second; None for no limit.
    pub operations_per_s: Option<f64>,
}

/// A file server, represented by its network interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Bytes per second.
    pub bytes_per_s: f64,
}

/// A network link.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Round-trip time.
    pub round_trip_s: f64,
}

/// An LRU cache between a storage element and the jobs that read from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cache {
    /// Capacity.
    pub size_bytes: f64,
    /// The storage of the cache itself: its disk, server, and links to nodes.
    pub storage: Storage,
}

/// A storage element: files on a server's disk, and the links to nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Storage {
    /// Index of the disk with the files.
    pub disk: Option<usize>,
    /// Index of the server in front of the disk.
    pub server: Option<usize>,
    /// Indices of the links between the storage element and the nodes.
    pub links: Vec<usize>,
    /// TCP window: maximum number of bytes in flight per stream.
    pub window_bytes: Option<f64>,
    /// Number of parallel streams per request.
    pub streams: usize,
    /// Index of the cache in front of the storage element.
    pub cache: Option<usize>,
}

/// Worker nodes of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Nodes {
    /// Number of nodes.
    pub count: usize,
    /// Cores per node.
    pub cores: usize,
    /// Maximum number of concurrent jobs per node.
    pub slots: usize,
    /// Bytes per second of each node's network interface.
    pub bytes_per_s: f64,
    /// Speed of the cores, relative to the cores for which the plans give computing times.
    pub speed: f64,
}

/// All shared resources.
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
    /// Storage elements, to which blocks refer.
    pub storages: Vec<Storage>,
    /// Worker nodes.
    pub nodes: Vec<Nodes>,
}

/// Kind of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bandwidth of a disk.
    Disk,
    /// Operations of a disk.
    Operations,
    /// Bandwidth of a server's network interface.
    Server,
    /// Bandwidth of a link.
    Link,
    /// Cores of a node. The index of the resource is the index of the node type.
    Cores,
    /// Bandwidth of a node's network interface. The index of the resource is the index of the node type.
    Network,
}

impl Kind {
    /// Name of the kind.
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

/// The path of blocks from a storage to a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path {
    /// Resources that every transferred byte uses.
    pub(crate) bytes: Vec<ResourceId>,
    /// Resource that every disk operation uses, if any.
    pub(crate) operations: Option<ResourceId>,
    pub(crate) round_trip_s: f64,
    /// Maximum bytes per second of a request.
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
    /// Kind, index and capacity per second of each resource.
    pub(crate) resources: Vec<(Kind, usize, f64)>,
    pub(crate) nodes: Vec<Node>,
    disks: Vec<(ResourceId, Option<ResourceId>)>,
    servers: Vec<ResourceId>,
    links: Vec<ResourceId>,
}

impl Platform {
    /// Creates the resources of this platform.
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
                return Err(Error("the slots of a node must be at least 1, got 0".to_owned()));
            }
            positive(one.speed, "the speed of a node")?;
            for _ in 0..one.count {
                let cores = layout.add(fluid, Kind::Cores, kind, one.cores as f64)?;
                let network = layout.add(fluid, Kind::Network, kind, one.bytes_per_s)?;
                layout.nodes.push(Node { cores, network, slots: one.slots, speed: one.speed });
            }
        }
        if layout.nodes.is_empty() {
            return Err(Error("the platform has no worker nodes".to_owned()));
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
                return Err(Error("a storage refers to a disk, server, link or cache that does not exist".to_owned()));
            }
            let mut sorted = one.links.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != one.links.len() {
                return Err(Error("a storage names a link twice".to_owned()));
            }
            if one.streams == 0 {
                return Err(Error("the streams of a storage must be at least 1, got 0".to_owned()));
            }
            one.window_bytes.map_or(Ok(1.0), |window| positive(window, "the window of a stream"))?;
        }
        Ok(())
    }
}

impl Layout {
    fn add(&mut self, fluid: &mut Fluid, kind: Kind, number: usize, units_per_s: f64) -> Result<ResourceId> {
        positive(units_per_s, &format!("the rate of {} {number}", kind.name()))?;
        self.resources.push((kind, number, units_per_s));
        Ok(fluid.add_resource(units_per_s))
    }

    /// Returns the path from a storage to a node.
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
