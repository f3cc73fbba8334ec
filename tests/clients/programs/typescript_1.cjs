// The TypeScript SDK's 1.x client.
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const {
  StreamableHTTPClientTransport,
} = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { ToolListChangedNotificationSchema } = require("@modelcontextprotocol/sdk/types.js");
const { talk } = require("./talk.cjs");

let heard = 0;
const client = new Client({ name: "typescript_1", version: "1" });
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void heard++);
talk(client, StreamableHTTPClientTransport, StdioClientTransport, async () => heard);
