// SPDX-License-Identifier: Apache-2.0
// `urmqttctl config ...`: the configuration over MQTT (docs/formats/control.md).
#pragma once
#include "ctl_link.h"

struct ctl_config_command {
  const char *name;
  void (*run)(char **arg);
  int args;
};
// NULL: there is none of this name.
const struct ctl_config_command *ctl_config_find(const char *name);
extern const struct ctl_options *ctl_config_options;
extern u32 ctl_config_seconds;
extern bool ctl_config_confirm_at_once;
