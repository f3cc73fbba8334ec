// The TypeScript SDK's 2.x client, which speaks the newest protocol where it can.
const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const { talk } = require("./talk.cjs");

let heard = 0;
const client = new Client(
  { name: "typescript_2", version: "1" },
  {
    versionNegotiation: { mode: "auto" },
    listChanged: { tools: { autoRefresh: false, onChanged: () => void heard++ } },
  },
);
talk(client, StreamableHTTPClientTransport, StdioClientTransport, async () => heard);
