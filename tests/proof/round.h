// SPDX-License-Identifier: Apache-2.0
// What the proofs of decode(encode(x)) = x share: any short text, and equality of what was decoded.
#pragma once
#include "base/utf8.h"
#include "mqtt/packet.h"
#include "proof.h"

#ifndef TEXT_MAX
#define TEXT_MAX 2u
#endif

// Every text in the values to encode is legal (utf8_text_exact proves what that is), and these
// proofs show that the decoders see the same bytes: they get the same answer.
bool utf8_text(const u8 *b, u32 len) {
  (void)b, (void)len;
  return true;
}

// Byte by byte, so that what stands at a known place stays known to the solver.
void *memcpy(void *restrict to, const void *restrict from, usize len) {
  for (usize i = 0; i < len; i++) {
    ((u8 *)to)[i] = ((const u8 *)from)[i];
  }
  return to;
}

// Any text of `len` bytes in `store`.
static inline struct bytes any_text(u8 *store, u32 len) {
  for (u32 i = 0; i < TEXT_MAX; i++) {
    store[i] = nondet_u8();
  }
  return bytes_of(store, len);
}

static inline bool same_part(struct part a, struct part b) {
  return a.off == b.off && a.len == b.len;
}

// The part p of the packet holds the bytes of s.
static inline bool same_text(struct bytes packet, struct part p, struct bytes s) {
  bool same = p.len == s.len && p.off <= packet.len && p.len <= packet.len - p.off;
  for (u32 i = 0; i < TEXT_MAX; i++) {
    same = same && (i >= s.len || packet.ptr[p.off + i] == s.ptr[i]);
  }
  return same;
}

static inline bool same_props(const struct mqtt_props *a, const struct mqtt_props *b) {
  bool same =
      a->present == b->present && same_part(a->all, b->all) && a->user_count == b->user_count &&
      a->session_expiry_s == b->session_expiry_s && a->message_expiry_s == b->message_expiry_s &&
      a->will_delay_s == b->will_delay_s && a->maximum_packet_size == b->maximum_packet_size &&
      a->subscription_id_count == b->subscription_id_count &&
      a->receive_maximum == b->receive_maximum &&
      a->topic_alias_maximum == b->topic_alias_maximum && a->topic_alias == b->topic_alias &&
      a->server_keep_alive == b->server_keep_alive && a->payload_format == b->payload_format &&
      a->request_problem == b->request_problem && a->request_response == b->request_response &&
      a->maximum_qos == b->maximum_qos && a->retain_available == b->retain_available &&
      a->wildcard_available == b->wildcard_available &&
      a->subscription_id_available == b->subscription_id_available &&
      a->shared_available == b->shared_available && same_part(a->content_type, b->content_type) &&
      same_part(a->response_topic, b->response_topic) &&
      same_part(a->correlation_data, b->correlation_data) &&
      same_part(a->assigned_client_id, b->assigned_client_id) &&
      same_part(a->auth_method, b->auth_method) && same_part(a->auth_data, b->auth_data) &&
      same_part(a->response_information, b->response_information) &&
      same_part(a->server_reference, b->server_reference) &&
      same_part(a->reason_string, b->reason_string);
  for (u32 i = 0; i < MQTT_SUBSCRIPTION_IDS_MAX; i++) {
    same =
        same && (i >= a->subscription_id_count || a->subscription_id[i] == b->subscription_id[i]);
  }
  return same;
}
