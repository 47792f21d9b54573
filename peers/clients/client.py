"""Drives hindcast with the official Python SDK; prints one JSON line for each scenario.

    python client.py '{"transport": "stdio", "era": "handshake", "binary": "…/hindcast", "data": "…"}'
    python client.py '{"transport": "https", "era": "stateless", "url": "https://localhost:7443/mcp",
                       "certificate": "…/cert.pem", "keys": {"main": "kdb_…", …}}'

`handshake` opens with `initialize`, as up to 2025-11-25; `stateless` with `server/discover`, as from 2026-07-28.
The trail in the data folder must be long: some scenarios follow or stop the check of it.
"""

import json
import logging as logging_module
import ssl
import sys
import time
import traceback
import warnings
from contextlib import asynccontextmanager

import anyio
import httpx2
import jsonschema
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

TARGET = json.loads(sys.argv[1])
HTTPS = TARGET["transport"] == "https"
STATELESS = TARGET["era"] == "stateless"
REVISION = "2026-07-28" if STATELESS else "2025-11-25"
MODE = "auto" if STATELESS else "legacy"

TEMPLATES = [
    "resource://knowledge/{collectionId}/documents",
    "resource://knowledge/{collectionId}/document/{docId}",
    "resource://knowledge/{collectionId}/stats",
    "hindcast://errors/{code}",
]

TOOLS = [
    "cache_stats",
    "debugger/attach",
    "debugger/autopsy",
    "debugger/compare",
    "debugger/continue",
    "debugger/disassemble",
    "debugger/disconnect",
    "debugger/evaluate",
    "debugger/export_trace",
    "debugger/find",
    "debugger/find_similar_bugs",
    "debugger/get_comprehensive_audit",
    "debugger/get_modules",
    "debugger/get_registers",
    "debugger/get_stack_trace",
    "debugger/get_threads",
    "debugger/get_variables",
    "debugger/goto",
    "debugger/history",
    "debugger/last_write",
    "debugger/launch",
    "debugger/license_info",
    "debugger/pause",
    "debugger/quota_status",
    "debugger/read_memory",
    "debugger/read_output",
    "debugger/record",
    "debugger/remove_breakpoint",
    "debugger/restart",
    "debugger/reverse_continue",
    "debugger/run_to",
    "debugger/save_finding",
    "debugger/set_breakpoint",
    "debugger/set_exception_breakpoint",
    "debugger/set_watchpoint",
    "debugger/status",
    "debugger/step_backward",
    "debugger/step_forward",
    "debugger/timeline",
    "debugger/trace_calls",
    "debugger/update_breakpoint",
    "debugger/wait",
    "debugger/what_if",
    "debugger/when",
    "debugger/write_input",
    "knowledge/add",
    "knowledge/ask",
    "knowledge/remove",
    "knowledge/search",
    "knowledge/status",
    "preload_documents",
    "validate_schema",
    "workspace/list",
    "workspace/put",
    "workspace/remove",
    "xpath_query",
]
AUDIT = "debugger/get_comprehensive_audit"

# Notifications are bundled for 150 ms: whatever has not come after this long will not come.
QUIET = 0.8
# How soon a change must be told.
SOON = 2.0
# A scenario that takes longer hangs.
LONGEST = 60.0

SCENARIOS = []


def scenario(only_if=True):
    def register(function):
        if only_if:
            SCENARIOS.append(function)
        return function

    return register


class Heard:
    """What the server told without being asked."""

    def __init__(self):
        self.logs = []
        self.updates = []
        self.problems = []
        self.statuses = []

    async def on_log(self, params):
        self.logs.append(params)

    async def on_message(self, message):
        if isinstance(message, Exception):
            self.problems.append(repr(message))
        elif isinstance(message, types.ResourceUpdatedNotification):
            self.updates.append(str(message.params.uri))

    async def on_response(self, response):
        self.statuses.append(response.status_code)


async def until(condition, what, seconds=SOON):
    with anyio.move_on_after(seconds):
        while not condition():
            await anyio.sleep(0.005)
    assert condition(), f"not within {seconds} s: {what}"


@asynccontextmanager
async def connected(key="main", arguments=(), mode=None, **options):
    """A client, and what it hears."""
    heard = Heard()
    async with transport(heard, key, arguments) as streams:
        client = Client(
            streams,
            mode=mode or MODE,
            logging_callback=heard.on_log,
            message_handler=heard.on_message,
            **options,
        )
        async with client:
            yield client, heard
    assert not heard.problems, heard.problems


@asynccontextmanager
async def transport(heard, key, arguments):
    if not HTTPS:
        command = ["mcp", "--data-dir", TARGET["data"], *arguments]
        yield stdio_client(StdioServerParameters(command=TARGET["binary"], args=command, env=isolated()))
        return
    trust = ssl.create_default_context(cafile=TARGET["certificate"])
    headers = {"Authorization": f"Bearer {TARGET['keys'][key]}"}
    hooks = {"response": [heard.on_response]}
    # Not through the proxy of whoever runs this, either.
    options = {"verify": trust, "headers": headers, "event_hooks": hooks, "trust_env": False}
    async with httpx2.AsyncClient(timeout=30, **options) as http:
        yield streamable_http_client(TARGET["url"], http_client=http)


def isolated():
    # The configuration of whoever runs this must not matter.
    return {"XDG_CONFIG_HOME": "/nonexistent"}


async def error_of(awaitable):
    try:
        result = await awaitable
    except MCPError as error:
        return error
    raise AssertionError(f"no error but {result!r}")


def innermost(group):
    while isinstance(group, BaseExceptionGroup):
        [group] = group.exceptions
    return group


def assert_error(error, code, message):
    assert (error.code, error.message) == (code, message), error.error
    assert error.data["details"] and error.data["hint"], error.error


async def checks_since(client, seq):
    """The checks of the trail that were written down after row `seq`, oldest first."""
    result = await client.call_tool(AUDIT, {"limit": 20})
    rows = reversed(result.structured_content["rows"])
    return [row for row in rows if row["tool"] == AUDIT and row["seq"] > seq]


@scenario()
async def initialize():
    async with connected() as (client, _):
        assert client.protocol_version == REVISION, client.protocol_version
        assert client.server_info.name == "hindcast", client.server_info
        assert "data.hint" in client.instructions
        capabilities = client.server_capabilities
        assert capabilities.resources.subscribe and capabilities.resources.list_changed, capabilities
        for name in ("tools", "prompts", "completions", "logging"):
            assert getattr(capabilities, name) is not None, name
        if STATELESS:
            assert client.session.initialize_result is None
            return {"negotiated": REVISION, "supported": client.session.discover_result.supported_versions}
        await client.send_ping()
        return {"negotiated": client.protocol_version}


@scenario()
async def list_tools():
    async with connected() as (client, _):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert sorted(tools) == TOOLS, sorted(tools)
        for tool in tools.values():
            assert tool.description and tool.annotations is not None, tool
            jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        assert tools["debugger/attach"].input_schema["properties"]["pid"]["type"] == "integer"
        assert tools[AUDIT].annotations.read_only_hint is True
        return sorted(tools)


@scenario(only_if=not HTTPS)
async def list_tools_with_underscores():
    async with connected(arguments=["--tool-names", "underscore"]) as (client, _):
        names = sorted(tool.name for tool in (await client.list_tools()).tools)
        assert names == [name.replace("/", "_") for name in TOOLS], names
        for name in ("debugger_license_info", "debugger/license_info"):
            assert not (await client.call_tool(name)).is_error
        return names


@scenario()
async def call_tool():
    async with connected() as (client, _):
        result = await client.call_tool("debugger/license_info", {})
        assert not result.is_error
        assert result.content[0].text.startswith("License: Community\n"), result.content
        assert "debugging" in result.structured_content["features"], result.structured_content
        return result.structured_content


@scenario()
async def call_tool_by_underscore_name():
    async with connected() as (client, _):
        plain = await client.call_tool("debugger/license_info", {})
        underscored = await client.call_tool("debugger_license_info", {})
        assert underscored.structured_content == plain.structured_content
        return underscored.content[0].text


@scenario()
async def tool_error():
    async with connected() as (client, _):
        error = await error_of(client.call_tool("debugger/get_stack_trace", {}))
        assert_error(error, -32005, "Not attached")
        assert "debugger/attach" in error.data["hint"], error.data
        wrong = await error_of(client.call_tool("debugger/attach", {"pid": "four"}))
        assert_error(wrong, -32602, "Invalid params")
        return error.data


@scenario()
async def read_resources():
    async with connected() as (client, _):
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        for uri in ("hindcast://quota", "hindcast://audit", "hindcast://license", "hindcast://errors"):
            assert uri in listed, listed
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == TEMPLATES, templates
        [quota] = (await client.read_resource("hindcast://quota")).contents
        assert (str(quota.uri), quota.mime_type) == ("hindcast://quota", "application/json"), quota
        read = json.loads(quota.text)
        assert read["unlimited"] is not HTTPS, read
        if HTTPS:
            month = read["month"]
            assert month["used"] + month["remaining"] == month["limit"], read
            # Other reads count, so an answer out of the SDK's cache would be an old one.
            await client.read_resource("hindcast://errors")
            [again] = (await client.read_resource("hindcast://quota")).contents
            assert json.loads(again.text)["month"]["used"] == month["used"] + 1, (read, again.text)
        [error] = (await client.read_resource("hindcast://errors/-32005")).contents
        assert json.loads(error.text)["message"] == "Not attached", error
        return listed


@scenario()
async def unknown_resource():
    async with connected() as (client, _):
        error = await error_of(client.read_resource("hindcast://nothing"))
        assert_error(error, -32602, "Resource not found")
        assert error.data["uri"] == "hindcast://nothing", error.data
        return error.data


@scenario()
async def prompts():
    async with connected() as (client, _):
        listed = {prompt.name: prompt for prompt in (await client.list_prompts()).prompts}
        assert sorted(listed) == ["find-crash", "find-hang", "find-wrong-value", "review-audit"], listed
        prompt = listed["review-audit"]
        arguments = {argument.name: argument.required for argument in prompt.arguments}
        assert arguments == {"period": True, "concern": False}, arguments
        [message] = (await client.get_prompt("review-audit", {"period": "yesterday"})).messages
        assert message.role == "user" and "during yesterday" in message.content.text, message
        error = await error_of(client.get_prompt("review-audit", {}))
        assert_error(error, -32602, "Invalid params")
        return arguments


@scenario()
async def complete():
    async with connected() as (client, _):
        prompt = types.PromptReference(name="review-audit")
        periods = (await client.complete(prompt, {"name": "period", "value": "the"})).completion
        assert periods.values == ["the last hour", "the last 7 days"], periods
        template = types.ResourceTemplateReference(uri="hindcast://errors/{code}")
        codes = (await client.complete(template, {"name": "code", "value": "-3200"})).completion
        assert "-32005" in codes.values and all(code.startswith("-3200") for code in codes.values), codes
        return codes.values


@scenario()
async def logging():
    # From 2026-07-28 on each request says for itself which log messages it wants.
    options = {"log_level": "info"} if STATELESS else {}
    async with connected(**options) as (client, heard):
        if not STATELESS:
            await client.call_tool("debugger/license_info", {})
            await client.set_logging_level("info")
        await client.call_tool("debugger/quota_status", {})
        await until(lambda: heard.logs, "a log message")
        [message] = heard.logs
        assert (message.level, message.logger) == ("info", "hindcast"), message
        assert message.data == {"tool": "debugger/quota_status", "outcome": "ok"}, message
        await error_of(client.call_tool("debugger/get_stack_trace", {}))
        await until(lambda: len(heard.logs) == 2, "a warning")
        assert heard.logs[1].level == "warning" and heard.logs[1].data["outcome"]["code"] == -32005, heard.logs
        return message.data


@scenario(only_if=not STATELESS)
async def subscribe():
    async with connected() as (client, heard):
        await client.subscribe_resource("hindcast://audit")
        asked = time.monotonic()
        await client.call_tool("debugger/license_info", {})
        await until(lambda: heard.updates, "an update of the audit trail")
        took = time.monotonic() - asked
        await anyio.sleep(QUIET)
        assert set(heard.updates) == {"hindcast://audit"}, heard.updates
        await client.unsubscribe_resource("hindcast://audit")
        before = len(heard.updates)
        await client.call_tool("debugger/license_info", {})
        await anyio.sleep(QUIET)
        assert len(heard.updates) == before, heard.updates
        error = await error_of(client.subscribe_resource("hindcast://nothing"))
        assert_error(error, -32602, "Resource not found")
        return {"seconds": round(took, 3)}


@scenario(only_if=STATELESS)
async def listen():
    async with connected() as (client, heard):
        async with client.listen(resource_subscriptions=["hindcast://audit"]) as subscription:
            assert subscription.honored.resource_subscriptions == ["hindcast://audit"], subscription.honored
            asked = time.monotonic()
            await client.call_tool("debugger/license_info", {})
            with anyio.fail_after(SOON):
                event = await anext(subscription)
            took = time.monotonic() - asked
            assert event == ResourceUpdated(uri="hindcast://audit"), event
        await anyio.sleep(QUIET)
        before = len(heard.updates)
        await client.call_tool("debugger/license_info", {})
        await anyio.sleep(QUIET)
        assert len(heard.updates) == before, heard.updates
        return {"seconds": round(took, 3)}


@scenario(only_if=STATELESS)
async def call_without_discover():
    async with connected(mode=REVISION) as (client, _):
        result = await client.call_tool("debugger/license_info", {})
        assert result.content[0].text.startswith("License: Community\n"), result
        return result.content[0].text


@scenario()
async def progress():
    seen = []

    async def report(done, total, message):
        seen.append((done, total, message))

    async with connected() as (client, _):
        result = await client.call_tool(AUDIT, {"limit": 1}, progress_callback=report)
        chain = result.structured_content["chain"]
        assert chain["verified"] is True, chain
        dones = [done for done, _, _ in seen]
        assert len(dones) >= 3 and dones == sorted(set(dones)), dones
        assert dones[-1] == chain.get("rows", 100), (dones[-1], chain)
        assert all(total >= done and message for done, total, message in seen), seen
        return {"notifications": len(seen), "progress": dones[-1]}


@scenario()
async def cancel():
    async with connected() as (client, _):
        for _ in range(3):
            whole = await checks_since(client, 0)
        # The server has to stop its work, not only the client its waiting: then the call is written
        # down with less time than a whole check takes. On a busy machine the word may come too late.
        for _ in range(5):
            was_cut = await cancelled_check(client)
            assert not (await client.call_tool("debugger/license_info", {})).is_error
            cancelled = await checks_since(client, whole[-1]["seq"])
            durations = {"whole_us": shortest(whole), "cancelled_us": shortest(cancelled)}
            if was_cut and durations["cancelled_us"] < durations["whole_us"] / 2:
                return durations
        raise AssertionError(durations)


async def cancelled_check(client):
    cut = anyio.CancelScope()

    async def report(_done, _total, _message):
        cut.cancel()

    with cut:
        await client.call_tool(AUDIT, {"limit": 1}, progress_callback=report)
    return cut.cancelled_caught


def shortest(checks):
    return min(check["duration_us"] for check in checks)


@scenario(only_if=HTTPS)
async def wrong_key():
    heard = Heard()
    try:
        async with transport(heard, "wrong", ()) as streams:
            async with Client(streams, mode=MODE):
                raise AssertionError("connected with a key that does not exist")
    except* MCPError as refused:
        error = innermost(refused)
    assert set(heard.statuses) == {401}, heard.statuses
    assert_error(error, -32001, "Authentication failed")
    return {"statuses": heard.statuses, "data": error.data}


@scenario(only_if=HTTPS)
async def wrong_scope():
    async with connected("narrow") as (client, _):
        error = await error_of(client.call_tool(AUDIT, {}))
        assert_error(error, -32003, "Permission denied")
        assert error.data["required_scope"] == "audit:read", error.data
        listed = [str(resource.uri) for resource in (await client.list_resources()).resources]
        assert "hindcast://audit" not in listed, listed
        assert_error(await error_of(client.read_resource("hindcast://audit")), -32003, "Permission denied")
        return error.data


@scenario(only_if=HTTPS)
async def over_quota():
    async with connected("one_call") as (client, heard):
        await client.call_tool("debugger/license_info", {})
        error = await error_of(client.call_tool("debugger/license_info", {}))
        assert_error(error, -32002, "Quota exceeded")
        assert error.data["used"] == error.data["limit"] and error.data["reset_at"], error.data
        assert 429 in heard.statuses, heard.statuses
        assert (await client.list_tools()).tools, "listing is free"
        return error.data


@scenario(only_if=HTTPS)
async def own_notifications_only():
    async with connected("main") as (mine, heard_mine), connected("other") as (theirs, heard_theirs):
        async with watching(mine), watching(theirs):
            await mine.call_tool("debugger/license_info", {})
            await until(lambda: heard_mine.updates, "an update of my quota")
            await anyio.sleep(QUIET)
            assert not heard_theirs.updates, heard_theirs.updates
            before = len(heard_mine.updates)
            await theirs.call_tool("debugger/license_info", {})
            await until(lambda: heard_theirs.updates, "an update of their quota")
            await anyio.sleep(QUIET)
            assert len(heard_mine.updates) == before, heard_mine.updates
            return {"mine": heard_mine.updates, "theirs": heard_theirs.updates}


@asynccontextmanager
async def watching(client, uri="hindcast://quota"):
    if STATELESS:
        async with client.listen(resource_subscriptions=[uri]):
            yield
    else:
        await client.subscribe_resource(uri)
        yield


class Complaints(logging_module.Handler):
    """What the SDK warns of: a peer should give it no cause."""

    def __init__(self):
        super().__init__(logging_module.WARNING)
        self.texts = []

    def emit(self, record):
        text = record.getMessage()
        # Tools may be called by their other name, which is not listed.
        if "not listed by server, cannot validate" not in text:
            self.texts.append(f"{record.name}: {text}")


@scenario()
async def no_complaints():
    assert not COMPLAINTS.texts, COMPLAINTS.texts


async def main():
    for function in SCENARIOS:
        try:
            with anyio.fail_after(LONGEST):
                ok, detail = True, await function()
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            ok, detail = False, "".join(traceback.format_exception(error))
        print(json.dumps({"scenario": function.__name__, "ok": ok, "detail": detail}), flush=True)


COMPLAINTS = Complaints()
logging_module.getLogger().addHandler(COMPLAINTS)
# Scenarios of the handshake use what the newest revision deprecates.
warnings.simplefilter("ignore", MCPDeprecationWarning)
anyio.run(main)
