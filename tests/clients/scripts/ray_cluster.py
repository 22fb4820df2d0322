"""A Ray of its own, on this machine, that does what lines of standard input say: for `check_ray.py`.

It runs in Ray's environment. A command is a line of JSON; so is its answer. The end of the input ends all of it.
"""

import json
import os
import sys

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_DEDUP_LOGS="0", RAY_SERVE_LOG_TO_STDERR="0")

import ray
from ray import serve
from ray.util import list_named_actors

import antiphon.ray


def deploy(application, arguments):
    """Returns when all of it runs."""
    serve.run(getattr(antiphon.ray, application)(arguments), name="default", blocking=False)
    return replicas()


def replicas():
    """How many there are of each deployment, by their state."""
    deployments = serve.status().applications["default"].deployments
    return {name: dict(each.replica_states) for name, each in deployments.items()}


def kill(deployment):
    """One replica dies at once, as with SIGKILL."""
    actors = [each for each in list_named_actors(all_namespaces=True) if f"#{deployment}#" in each["name"]]
    ray.kill(ray.get_actor(**actors[0]), no_restart=False)
    return actors[0]["name"]


COMMANDS = {"deploy": deploy, "replicas": replicas, "kill": kill}


def main():
    port, folder = int(sys.argv[1]), sys.argv[2]
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # What Ray prints is no answer.
    ray.init(
        address="local", num_cpus=16, include_dashboard=False, object_store_memory=100_000_000, _temp_dir=folder,
        logging_level="warning",
    )  # fmt: skip
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    print(json.dumps("ready"), file=out)
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer = COMMANDS[name](*arguments)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out)
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
