// SPDX-License-Identifier: Apache-2.0
// urmqtt-stamp --mosquitto: a mosquitto.conf of a Linux machine and every file that it names, as a
// bundle; and what becomes of each keyword. Host program.
#pragma once
#include "admin/config.h"

// Packs the file and what it names (through include_dir and capath, absolute paths too). Exits 1
// with a message when one of them cannot be read.
struct bytes mosquitto_bundle(const char *conf_path);
// One line a keyword of the bundle: kept, mapped, ignored (and why) or refused.
void mosquitto_report(struct bytes tar);
// What mosquitto.conf cannot say and this machine needs, after the bundle was parsed.
void mosquitto_missing(const struct config *config);
