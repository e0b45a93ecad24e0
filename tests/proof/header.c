// SPDX-License-Identifier: Apache-2.0
// The fixed header of any input: inside, within its ranges, and short only while five bytes are not
// there.
#include "mqtt/packet.h"
#include "proof.h"

void proof_fixed_header(void) {
  struct bytes in = any_bytes(PROOF_MAX);
  struct mqtt_header h;
  enum err e = mqtt_fixed_header(in, &h);
  __CPROVER_assert(e == ERR_OK || e == ERR_SHORT || e == ERR_MALFORMED, "one of three answers");
  __CPROVER_assert(e != ERR_SHORT || in.len < MQTT_FIXED_MAX, "five bytes decide");
  if (e == ERR_OK) {
    __CPROVER_assert(h.header_len >= 2 && h.header_len <= 5 && h.header_len <= in.len, "inside");
    __CPROVER_assert(h.remaining_len <= MQTT_REMAINING_MAX, "in range");
    __CPROVER_assert(h.type >= 1 && h.type <= 15, "a type");
    __CPROVER_assert(
        h.type == MQTT_PUBLISH || h.type == MQTT_CONNECT || h.flags == (h.type == 6 || h.type == 8 || h.type == 10 ? 2 : 0),
        "reserved flags [MQTT-2.1.3-1]");
    PROOF_REACHED();
  }
}
