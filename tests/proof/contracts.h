// SPDX-License-Identifier: Apache-2.0
// Contracts of the codec's building blocks. Each is enforced by one proof and stands for its
// function in the others.
#pragma once
#include "base/utf8.h"
#include "mqtt/topic.h"
#include "mqtt/wire.h"
#include "proof.h"

// Bytes fewer than the length says: a negative twin's contract promises one byte too many, and the
// proof must notice that it is read.
#ifndef OVER
#define OVER 0u
#endif

bool utf8_valid(const u8 *b, u32 len)
    // clang-format off
__CPROVER_requires(len <= OVER || __CPROVER_r_ok(b, len - OVER))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || __CPROVER_return_value == 1);

bool utf8_text(const u8 *b, u32 len)
__CPROVER_requires(len <= OVER || __CPROVER_r_ok(b, len - OVER))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || __CPROVER_return_value == 1);

bool topic_name_valid(struct bytes name)
__CPROVER_requires(name.len <= OVER || __CPROVER_r_ok(name.ptr, name.len - OVER))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || (name.len > 0 && name.len <= U16_MAX));

bool topic_filter_valid(struct bytes filter)
__CPROVER_requires(filter.len <= OVER || __CPROVER_r_ok(filter.ptr, filter.len - OVER))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || (filter.len > 0 && filter.len <= U16_MAX));

// A property step moves on inside its block.
enum mqtt_reason mqtt_read_property(struct reader *r, u32 where, struct mqtt_props *out)
__CPROVER_requires(__CPROVER_rw_ok(r, sizeof *r) && __CPROVER_rw_ok(out, sizeof *out))
__CPROVER_requires(r->err == ERR_OK && r->pos < r->end && __CPROVER_r_ok(r->base, r->end - OVER))
__CPROVER_requires(out->subscription_id_count <= MQTT_SUBSCRIPTION_IDS_MAX)
__CPROVER_requires(out->response_topic.off <= r->end)
__CPROVER_requires(out->response_topic.len <= r->end - out->response_topic.off)
__CPROVER_assigns(r->pos, r->err, *out)
__CPROVER_ensures(r->pos > __CPROVER_old(r->pos) && r->pos <= r->end)
__CPROVER_ensures(out->subscription_id_count <= MQTT_SUBSCRIPTION_IDS_MAX)
__CPROVER_ensures(out->response_topic.off <= r->end)
__CPROVER_ensures(out->response_topic.len <= r->end - out->response_topic.off)
__CPROVER_ensures(__CPROVER_return_value != MQTT_SUCCESS || r->err == ERR_OK);

// A property block: the reader stays inside and, on success, has moved on.
enum mqtt_reason mqtt_read_props(struct reader *r, u32 where, struct mqtt_props *out)
__CPROVER_requires(__CPROVER_rw_ok(r, sizeof *r) && __CPROVER_rw_ok(out, sizeof *out))
__CPROVER_requires(r->pos <= r->end && (r->end == 0 || __CPROVER_r_ok(r->base, r->end - OVER)))
__CPROVER_requires(out->subscription_id_count == 0)
__CPROVER_requires(out->response_topic.off == 0 && out->response_topic.len == 0)
__CPROVER_assigns(r->pos, r->err, *out)
__CPROVER_ensures(r->pos >= __CPROVER_old(r->pos) && r->pos <= r->end)
__CPROVER_ensures(__CPROVER_return_value != MQTT_SUCCESS || r->err == ERR_OK)
__CPROVER_ensures(__CPROVER_return_value != MQTT_SUCCESS || __CPROVER_old(r->err) == ERR_OK)
__CPROVER_ensures(__CPROVER_return_value != MQTT_SUCCESS || r->pos > __CPROVER_old(r->pos))
__CPROVER_ensures(out->response_topic.off <= r->end)
__CPROVER_ensures(out->response_topic.len <= r->end - out->response_topic.off)
__CPROVER_ensures(__CPROVER_return_value != MQTT_SUCCESS || out->all.off <= r->end)
__CPROVER_ensures(__CPROVER_return_value != MQTT_SUCCESS || out->all.len <= r->end - out->all.off);
// clang-format on

// "$share/" is the longest prefix the codec looks for. That the answer is exact is bytes.c's proof.
bool bytes_starts_with(struct bytes a, struct bytes prefix)
// clang-format off
__CPROVER_requires(a.len == 0 || __CPROVER_r_ok(a.ptr, a.len))
__CPROVER_requires(prefix.len <= 8 && (prefix.len == 0 || __CPROVER_r_ok(prefix.ptr, prefix.len)))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || a.len >= prefix.len);
// clang-format on
