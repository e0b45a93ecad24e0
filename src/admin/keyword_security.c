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

static void on_zero_length(struct parser *p, void *field) {
  bool allowed = true;
  (void)field;
  take_bool(p, &allowed);
  if (!allowed) {
    problem(p, CONFIG_ERROR,
            "allow_zero_length_clientid false is not supported yet: clients without an "
            "identifier are given one");
  }
}

#define OPENS "ignoring it would let in whom you keep out"
#define BREAKS "ignoring it would break what you rely on"

const struct keyword keywords_security[] = {
    {"per_listener_settings",
     BY(SCOPE_GLOBAL, struct config, per_listener_settings, on_per_listener)},
    {"allow_anonymous", IN_SECURITY(allow_anonymous)},
    {"allow_zero_length_clientid", .take = on_zero_length},
    {"acl_file", .fate = FATE_REFUSED, .why = OPENS},
    {"password_file", .fate = FATE_REFUSED, .why = OPENS},
    {"psk_file", .fate = FATE_REFUSED, .why = OPENS},
    {"clientid_prefixes", .fate = FATE_REFUSED, .why = OPENS},
    {"check_retain_source", .fate = FATE_REFUSED, .why = OPENS},
    {"use_subject_as_username", .fate = FATE_REFUSED,
     .why = "use use_identity_as_username (the certificate's common name)"},
    {"use_username_as_clientid", .fate = FATE_REFUSED, .why = BREAKS},
    {.name = NULL},
};
