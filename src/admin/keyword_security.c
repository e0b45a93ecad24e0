// SPDX-License-Identifier: Apache-2.0
// Keywords that say who may come in and what he may do.
#include "admin/keyword.h"

static void on_per_listener(struct parser *p, void *field) {
  u32 errors = p->report->error_count;
  take_bool(p, field);
  if (p->report->error_count == errors && p->config->listener_count > 0) {
    problem(p, CONFIG_ERROR, "per_listener_settings must stand before the first listener");
  }
}

// A file that may be empty: then it names nobody, or allows nothing.
static void on_rules(struct parser *p, void *field) {
  u32 errors = p->report->error_count;
  u32 count = p->report->count;
  struct config_file *f = field;
  take_file(p, field);
  bool found = f->data.ptr != NULL && f->data.len == 0 && value_of(p).len > 0;
  if (found && p->report->error_count == errors + 1) {
    p->report->error_count = errors;
    p->report->count = MIN(p->report->count, count);
    problem(p, CONFIG_WARNING, "%s is empty: %s", p->k->name,
            "nobody comes in by it and nothing is allowed");
  }
}

static void on_san(struct parser *p, void *field) {
  u8 *to = field;
  char buf[64];
  if (bytes_equal_str(value_of(p), "dns")) {
    *to = 1;
  } else if (bytes_equal_str(value_of(p), "email")) {
    *to = 2;
  } else {
    problem(p, CONFIG_ERROR, "%s wants dns or email, not \"%s\"", p->k->name,
            shown(value_of(p), buf));
  }
}

#define OPENS "ignoring it would let in whom you keep out"

const struct keyword keywords_security[] = {
    {"per_listener_settings",
     BY(SCOPE_GLOBAL, struct config, per_listener_settings, on_per_listener)},
    {"allow_anonymous", IN_SECURITY(allow_anonymous)},
    {"allow_zero_length_clientid", IN_CONFIG(allow_zero_length_clientid)},
    {"acl_file", BY(SCOPE_SECURITY, struct config_security, acl_file, on_rules)},
    {"password_file", BY(SCOPE_SECURITY, struct config_security, password_file, on_rules)},
    {"acl_subscribe_check", IN_SECURITY(acl_subscribe_check)},
    {"psk_file", .fate = FATE_REFUSED, .why = OPENS},
    {"clientid_prefixes", IN_CONFIG(clientid_prefixes)},
    {"check_retain_source", IN_CONFIG(check_retain_source)},
    {"use_subject_as_username", IN_LISTENER(use_subject_as_username)},
    {"use_san_as_username",
     BY(SCOPE_LISTENER, struct config_listener, use_san_as_username, on_san)},
    {"use_username_as_clientid", IN_LISTENER(use_username_as_clientid)},
    {.name = NULL},
};
