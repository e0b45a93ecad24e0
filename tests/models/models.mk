# SPDX-License-Identifier: Apache-2.0
models: ## every state of the Promela models of what happens between cores, and their seeded bugs (MODEL=NAME for one)
	@tests/models/run $(B)/models $(MODEL)
.PHONY: models
