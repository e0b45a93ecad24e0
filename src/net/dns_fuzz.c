// SPDX-License-Identifier: Apache-2.0
// Fuzzes: DNS answers. The question is prepended, so that the input is the records behind it; the
// first two bytes are the header's flags.
#include <stdlib.h>
#include <string.h>

#include "net/dns_message.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static const char name[] = "mqtt.example.org";
  if (len < 3 || len > 4096) {
    return 0;
  }
  u16 type = (len & 1) != 0 ? DNS_AAAA : DNS_A;
  u8 head[DNS_QUERY_MAX];
  struct writer w = writer_init(span_of(head, sizeof head));
  dns_query_write(&w, 7, bytes_str(name), type);
  head[2] = data[0] | 0x80;
  head[3] = data[1] & 0xf3;
  head[7] = data[2];
  usize whole = w.pos + len - 3;
  u8 *copy = malloc(whole);
  memcpy(copy, head, w.pos);
  memcpy(copy + w.pos, data + 3, len - 3);
  struct dns_answer a;
  enum dns_result r = dns_answer_read(bytes_of(copy, whole), 7, bytes_str(name), type, &a);
  if (a.count > DNS_ADDRESSES_MAX || (r == DNS_FOUND && a.count == 0)) {
    abort();
  }
  free(copy);
  return 0;
}
