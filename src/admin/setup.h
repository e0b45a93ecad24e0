// SPDX-License-Identifier: Apache-2.0
// Setting up this machine's disk, before anything is served: the installer as people see it on the
// serial port and on the screen with a keyboard; the same without a hand, when a configuration asks
// for it; and the look for an installed urMQTT when the machine was started from the medium.
#pragma once
#include "admin/config.h"
#include "loop/carve.h"

// The menu's entry "install" (the word `install` in the command line): asks, installs, ends.
// Returns at once without that word. Before the memory is divided.
void setup_interactive(struct carve *carve);
// Started from the medium (`medium=iso`), not by somebody who chose `live` in the menu: an urMQTT
// on one of the disks is named, and the machine stops. After that, `install auto` of the
// configuration (NULL: none) is carried out, and the machine ends. Returns otherwise.
void setup_started_from_medium(struct carve *carve, const struct config *config);
