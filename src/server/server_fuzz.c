// SPDX-License-Identifier: Apache-2.0
// Fuzzes: the MQTT byte stream of one plain connection, cut as the input says, through the server
// and the whole broker. The first byte picks the version and whether a CONNECT is sent for it; then
// a length byte and so many bytes make one piece, again and again.
#include "server/server_test_support.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize size);

int LLVMFuzzerTestOneInput(const u8 *data, usize size) {
  static const u8 hello[] = {0x10, 14, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 60, 0, 0, 1, 'f'};
  static const u8 hello4[] = {0x10, 13, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, 1, 'f'};
  start_server(32u << 20);
  if (size == 0) {
    return 0;
  }
  struct tcp_conn *c = open_conn();
  if ((data[0] & 3) == 1) {
    feed(c, hello, sizeof hello);
  } else if ((data[0] & 3) == 2) {
    feed(c, hello4, sizeof hello4);
  }
  turns(1);
  usize pos = 1;
  for (u32 i = 0; pos < size && i < 400 && !c->closed; i++) {
    u32 len = (u32)MIN((usize)data[pos] + 1, size - pos - 1);
    feed(c, data + pos + 1, len);
    pos += 1 + len;
    turns(1);
    c->out_len = 0;
    c->room = 65536;
  }
  turns(2);
  drop_conn(c);
  ASSERT(server_stats(core.server)->connections == 0);
  return 0;
}
