"""The FastMCP side of `cargo xtask bench server`: one trivial tool, stateless, plain JSON answers."""

import sys

from fastmcp import FastMCP

mcp = FastMCP("bench-peer")


@mcp.tool
def license_info() -> dict:
    """Tells which licence this server runs under."""
    return {"license_type": "Community", "features": ["all"], "expires": None}


if __name__ == "__main__":
    mcp.run(
        transport="http",
        host="127.0.0.1",
        port=int(sys.argv[1]),
        path="/mcp",
        stateless_http=True,
        json_response=True,
        log_level="error",
        show_banner=False,
        uvicorn_config={"access_log": False},
    )
