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
// One message to the topic; a handler for broker_set_control.
void control_message(void *core, const struct access_who *who, struct bytes payload, u64 now_ns);
