// SPDX-License-Identifier: Apache-2.0
// What the decoders share: variable byte integers, strings, properties. Internal to mqtt/.
#pragma once
#include "mqtt/packet.h"

// Where a property may stand (5.0, table 2-4): bit = packet type, bit 16 = will properties.
#define MQTT_IN_WILL 16u
#define MQTT_IN(type) (1u << (type))

// 1.5.5 Variable byte integer: at most four bytes, in the fewest possible [MQTT-1.5.5-1].
// Sets ERR_MALFORMED otherwise.
u32 mqtt_read_varint(struct reader *r);
// The same, and one that is longer than it need be is only told of: before 5.0 it was legal.
u32 mqtt_read_length(struct reader *r, bool *minimal);

// 1.5.4 UTF-8 string: two length bytes, well-formed, no U+0000 [MQTT-1.5.4-1] [MQTT-1.5.4-2], and
// no other control characters, which a receiver may refuse; mosquitto does.
struct part mqtt_read_utf8(struct reader *r);
// 1.5.6 Binary data.
struct part mqtt_read_binary(struct reader *r);

// Reads a property length and that many bytes of properties, each allowed in `where`.
// 0, MQTT_MALFORMED_PACKET or MQTT_PROTOCOL_ERROR (a value out of range, a property given twice).
enum mqtt_reason mqtt_read_props(struct reader *r, u32 where, struct mqtt_props *out);
// One property of the block that ends at r->end.
enum mqtt_reason mqtt_read_property(struct reader *r, u32 where, struct mqtt_props *out);
