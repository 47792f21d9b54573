"""Validates the files of `deploy/`, and prints how each container of hindcast is started, as JSON.

Usage: validate.py DEPLOY_FOLDER
"""

import json
import pathlib
import sys

import kubernetes_validate
import yaml


def kubernetes(folder):
    """Every container of hindcast in the manifests that the kustomization names."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for name in kustomization["resources"]:
        for manifest in yaml.safe_load_all((folder / name).read_text()):
            kubernetes_validate.validate(manifest, "1.30", strict=True)
            template = manifest["spec"].get("template") if "spec" in manifest else None
            for container in template["spec"]["containers"] if template else []:
                if container["image"] != "hindcast":
                    continue
                mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
                probes = [container[kind]["httpGet"]["path"] for kind in ("livenessProbe", "readinessProbe")]
                for _ in range(manifest["spec"]["replicas"]):
                    yield {
                        "arguments": container["args"],
                        "environment": {entry["name"]: entry["value"] for entry in container["env"]},
                        "mounts": mounts,
                        "probes": probes,
                    }


def compose(file):
    """Every service of hindcast in a compose file."""
    for service in yaml.safe_load(file.read_text())["services"].values():
        if service["image"] != "hindcast":
            continue
        secrets = [f"/run/secrets/{name}" for name in service["secrets"]]
        yield {
            "arguments": service["command"],
            "environment": service["environment"],
            "mounts": [volume.split(":")[1] for volume in service["volumes"]] + secrets,
            "probes": [],
        }


deploy = pathlib.Path(sys.argv[1])
print(json.dumps({
    "kubernetes": list(kubernetes(deploy / "kubernetes")),
    "compose": list(compose(deploy / "compose.yaml")),
}))
