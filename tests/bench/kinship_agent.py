"""One member of a kinship cluster that prints its events: NAME BIND SEED KEY."""

import asyncio
import sys

import kinship


async def main(name: str, bind: str, seed: str, key: str) -> None:
    seeds = [] if seed == bind else [seed]
    config = kinship.Config.lan(name=name, bind=bind, seeds=seeds, keys=[key], cluster="bench")
    async with kinship.Cluster(config) as cluster:
        events = cluster.events()
        for member in cluster.members():
            print("MemberJoined", member.name, flush=True)
        async for event in events:
            print(type(event).__name__, getattr(getattr(event, "member", None), "name", ""), flush=True)


asyncio.run(main(*sys.argv[1:]))
