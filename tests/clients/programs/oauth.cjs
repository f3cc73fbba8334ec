// The TypeScript SDK's client, as it logs in by itself; see oauth.py for what is said.
const {
  Client,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} = require("@modelcontextprotocol/client");
const { createInterface } = require("node:readline");

const given = JSON.parse(process.argv[2]);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const read = async () => (await lines.next()).value;
const write = (said) => process.stdout.write(JSON.stringify(said) + "\n");

let client, tokens, verifier;
const provider = {
  redirectUrl: given.redirect,
  clientMetadataUrl: given.document,
  clientMetadata: {
    client_name: "TypeScript SDK",
    redirect_uris: [given.redirect],
    token_endpoint_auth_method: "none",
  },
  state: () => "a state",
  clientInformation: () => client,
  saveClientInformation: (information) => void (client = information),
  tokens: () => tokens,
  saveTokens: (given) => void (tokens = given),
  saveCodeVerifier: (given) => void (verifier = given),
  codeVerifier: () => verifier,
  redirectToAuthorization: (url) => write({ authorize: String(url) }),
};

async function tools() {
  for (let attempt = 0; ; attempt++) {
    const transport = new StreamableHTTPClientTransport(new URL(given.url), {
      authProvider: provider,
    });
    const me = new Client({ name: "oauth", version: "1" });
    try {
      await me.connect(transport);
      return (await me.listTools()).tools.map((tool) => tool.name);
    } catch (error) {
      if (!(error instanceof UnauthorizedError) || attempt) throw error;
      await transport.finishAuth(new URLSearchParams(await read()));
    } finally {
      await me.close();
    }
  }
}

(async () => {
  while ((await read()) !== undefined) {
    await tools()
      .then((names) => write({ tools: names }))
      .catch((error) => write({ error: String(error) }));
  }
})();
