// A company's OpenID provider, panva's oidc-provider, whose people log in with their name alone.
// Its argument is JSON: client, secret, redirect, and people with their claims by name. It prints
// its address once it listens.
const { createServer } = require("node:http");
const { Provider } = require("oidc-provider");

const given = JSON.parse(process.argv[2]);
const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: given.client,
        client_secret: given.secret,
        redirect_uris: [given.redirect],
        response_types: ["code"],
        grant_types: ["authorization_code"],
      },
    ],
    claims: {
      openid: ["sub"],
      email: ["email", "email_verified"],
      profile: ["preferred_username"],
      groups: ["groups"],
    },
    conformIdTokenClaims: false, // groups stand in the ID token
    cookies: { keys: ["test"] },
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, ...given.people[id] }),
    }),
  });
  server.on("request", provider.callback());
  process.stdout.write(`${issuer}\n`);
});
