// SPDX-License-Identifier: Apache-2.0
// Plugins are programs for another system. Those that mosquitto brings are known by their file
// names and what they do is done here or named; any other is refused, since it may be what keeps
// people out.
#include "admin/keyword.h"

static const struct {
  const char *name;  // part of the file's name
  enum config_severity severity;
  const char *text;
} known[] = {
    {"mosquitto_persist_sqlite", CONFIG_WARNING,
     "storage is this program's own; served from RAM until there is a disk"},
    {"mosquitto_password_file", CONFIG_NOTE, "done by password_file here"},
    {"mosquitto_acl_file", CONFIG_NOTE, "done by acl_file here"},
    {"mosquitto_sparkplug_aware", CONFIG_WARNING, "is left out: messages pass unchanged"},
    {"mosquitto_dynamic_security", CONFIG_NOTE,
     "done by this program itself; changes live in RAM until there is a disk"},
};

static bool contains(struct bytes text, struct bytes word) {
  for (usize i = 0; i + word.len <= text.len; i++) {
    if (bytes_equal(bytes_sub(text, i, word.len), word)) {
      return true;
    }
  }
  return false;
}

static void on_plugin(struct parser *p, void *field) {
  char buf[64];
  struct bytes v = value_of(p);
  (void)field;
  for (u32 i = 0; i < ARRAY_COUNT(known); i++) {
    if (contains(v, bytes_str(known[i].name))) {
      p->config->dynsec |= contains(v, BYTES_LIT("dynamic_security"));
      problem(p, known[i].severity, "%s %s: %s", p->k->name, known[i].name, known[i].text);
      return;
    }
  }
  problem(p, CONFIG_ERROR,
          "%s \"%s\" is not supported: a plugin cannot run here, and ignoring it would let in whom "
          "it keeps out",
          p->k->name, shown(v, buf));
}

#define FOR_PLUGIN "an option of a plugin, which cannot run here"

const struct keyword keywords_plugin[] = {
    {"plugin", .take = on_plugin, MAPPED("mosquitto's own are known by name, others refused")},
    {"auth_plugin", .take = on_plugin, MAPPED("mosquitto's own are known by name, others refused")},
    {"global_plugin", .take = on_plugin,
     MAPPED("mosquitto's own are known by name, others refused")},
    {"plugin_load", .take = on_plugin, MAPPED("mosquitto's own are known by name, others refused")},
    {"plugin_use", .fate = FATE_IGNORED, .why = "names a plugin of plugin_load"},
    {"auth_plugin_deny_special_chars", .fate = FATE_MAPPED,
     .why = "names with + or # match no pattern, as in an acl_file"},
    {"plugin_opt_config_file", IN_CONFIG(dynsec_file)},
    {"plugin_opt_password_file", IN_SECURITY(password_file)},
    {"plugin_opt_acl_file", IN_SECURITY(acl_file)},
    {"plugin_opt_", .fate = FATE_IGNORED, .why = FOR_PLUGIN},
    {"auth_opt_", .fate = FATE_IGNORED, .why = FOR_PLUGIN},
    {.name = NULL},
};
