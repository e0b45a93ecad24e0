// SPDX-License-Identifier: Apache-2.0
// DNS messages (RFC 1035 4) as a stub resolver needs them: one question for addresses of a
// family, one answer with its chain of aliases. Pure: bytes in, values out.
#pragma once
#include "base/ip.h"

#define DNS_NAME_MAX 253u   // as text (RFC 1035 2.3.4, less the root's dot)
#define DNS_QUERY_MAX 288u  // header, name, type, class
#define DNS_ADDRESSES_MAX 8u

struct dns_answer {
  struct ip_addr address[DNS_ADDRESSES_MAX];  // as the server put them
  u32 count;
  u32 ttl_s;  // the least along the chain
};
#define DNS_A 1u
#define DNS_AAAA 28u  // RFC 3596

enum dns_result {
  DNS_FOUND,
  DNS_NO_NAME,     // the server says that there is no such name
  DNS_NO_ADDRESS,  // the name has no address of that family
  DNS_FAILED,      // the server could not or would not; another may
  DNS_NO_ANSWER,   // nobody answered
  DNS_NOT_OURS,    // not an answer to the question: keep waiting
};
const char *dns_result_text(enum dns_result result);

// Labels of 1..63 letters, digits, '-' and '_', at most DNS_NAME_MAX in all; one dot at the end is
// allowed.
bool dns_name_valid(struct bytes name);
// Writes the query. `name` is valid.
void dns_query_write(struct writer *w, u16 id, struct bytes name, u16 type);
// Reads what came back. Anything malformed, of another id or question: DNS_NOT_OURS.
enum dns_result dns_answer_read(struct bytes packet, u16 id, struct bytes name, u16 type,
                                struct dns_answer *out);
