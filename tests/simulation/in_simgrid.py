"""Run by the Python of Debian 13, which has SimGrid: reads a case as JSON, writes when each job ended.

Disks, servers and network cards are links here: all of them are resources whose rate flows share. SimGrid's corrections
for TCP (97 % of the bandwidth, slow start, traffic of the other direction) are switched off: both sides get the same
platform.
"""

import json
import sys

from simgrid import Engine, LinkInRoute, Mailbox, Semaphore, this_actor


def send(job, blocks, room, mailbox):
    for one in blocks:
        room.acquire()
        if job["round_trip_s"]:
            this_actor.sleep_for(job["round_trip_s"])
        comm = mailbox.put_init("block", int(one["bytes"]))
        if job["rate"]:
            comm.set_rate(job["rate"])
        comm.start().wait()


def receive(blocks, has_come, mailbox):
    for _ in blocks:
        mailbox.get()
        has_come.release()


def compute(number, blocks, room, has_come, ends):
    for one in blocks:
        has_come.acquire()
        this_actor.execute(one["cpu_s"])
        room.release()
    ends[number] = Engine.clock


def main():
    case = json.load(sys.stdin)
    settings = ["network/model:CM02", "network/crosstraffic:0", "network/bandwidth-factor:1"]
    settings += ["network/latency-factor:1", "network/weight-S:0", "precision/timing:1e-9", "contexts/stack-size:256"]
    engine = Engine(["branchline", "--log=root.thres:error", *(f"--cfg={one}" for one in settings)])
    zone = engine.netzone_root.add_netzone_full("all")
    links = {name: zone.add_link(name, float(rate)) for name, rate in case["links"].items()}
    for one in links.values():
        one.set_latency(0.0)
    sources = [zone.add_host(f"source{number}", 1.0) for number in range(len(case["ways"]))]
    nodes = []
    for number, cores in enumerate(case["nodes"]):
        node = zone.add_host(f"node{number}", 1.0)
        node.core_count = cores
        nodes.append(node)
    for source, way in zip(sources, case["ways"], strict=True):
        for number, node in enumerate(nodes):
            route = [LinkInRoute(links[name]) for name in [*way, f"network{number}"]]
            zone.add_route(source, node, route, False)
    zone.seal()
    ends = {}
    for number, job in enumerate(case["jobs"]):
        room, has_come = Semaphore(job["blocks_ahead"] + 1), Semaphore(0)
        source, node, blocks = sources[job["way"]], nodes[job["node"]], job["blocks"]
        mailbox = Mailbox.by_name(f"job{number}")
        engine.add_actor(f"send{number}", source, send, job, blocks, room, mailbox)
        engine.add_actor(f"receive{number}", node, receive, blocks, has_come, mailbox)
        engine.add_actor(f"compute{number}", node, compute, number, blocks, room, has_come, ends)
    engine.run()
    json.dump([ends[number] for number in range(len(case["jobs"]))], sys.stdout)


main()
