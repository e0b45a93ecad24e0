// SPDX-License-Identifier: Apache-2.0
// The console over MQTT: JSON commands published to $CONTROL/urmqtt/v1 by the users that the
// configuration names (`console_user NAME`), in the shape of mosquitto's $CONTROL; the answer goes
// to the client that asked, on $CONTROL/urmqtt/v1/response. docs/formats/control.md lists the
// commands.
//
// Every command is logged with who gave it.
#pragma once
#include "admin/config.h"
#include "loop/core.h"

#define CONTROL_TOPIC "$CONTROL/urmqtt/v1"

// Names the users from now on; without any the topic is nobody's. The core's broker must be there.
void control_configure(struct core *core, const struct config *c);
// Runs what has arrived: a stage of the loop, outside of anybody's PUBLISH.
bool control_stage(struct core *core, void *unused);
