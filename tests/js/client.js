// SPDX-License-Identifier: Apache-2.0
// One MQTT.js client: connects to argv[2] with the options argv[3] (JSON), subscribes to js/#, publishes at each QoS,
// a retained one and 300 KB, and says on standard output what came back, as JSON.
const fs = require("fs");
const mqtt = require("mqtt");

const options = JSON.parse(process.argv[3]);
for (const name of ["ca", "cert", "key"]) {
  if (options[name]) options[name] = fs.readFileSync(options[name]);
}
const client = mqtt.connect(process.argv[2], options);
const got = [];
const big = Buffer.alloc(300000, "x");
const fail = setTimeout(() => { console.log(JSON.stringify({ error: "timeout", got })); process.exit(1); }, 20000);

client.on("error", (e) => { console.log(JSON.stringify({ error: String(e) })); process.exit(1); });
client.on("message", (topic, payload, packet) => {
  got.push([topic, payload.length > 100 ? payload.length : payload.toString(), packet.qos, packet.retain]);
  if (got.length === 5) {
    clearTimeout(fail);
    client.end(false, {}, () => { console.log(JSON.stringify({ got })); process.exit(0); });
  }
});
client.on("connect", () => client.subscribe("js/#", { qos: 2 }, () => {
  for (const qos of [0, 1, 2]) client.publish("js/a", "q" + qos, { qos });
  client.publish("js/big", big, { qos: 1 });
  client.publish("js/kept", "kept", { qos: 1, retain: true });
}));
