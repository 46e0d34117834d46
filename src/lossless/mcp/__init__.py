"""The MCP server: memory for any client of the Model Context Protocol.

`server` answers requests, whatever carries them. `stdio` carries them over standard input and output with the standard
library alone, because a client waits for the start of a server, and loading the official SDK takes longer than all the
rest. `http` carries them over streamable HTTP, with the SDK.
"""
