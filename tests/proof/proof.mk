# SPDX-License-Identifier: Apache-2.0
prove: $(B)/cbmc/bin/cbmc ## CBMC proofs (PROOF=NAME for one)
	@tests/proof/run $(B)/cbmc $(PROOF)
$(B)/cbmc/bin/cbmc: tests/proof/fetch_cbmc
	@tests/proof/fetch_cbmc $(B)/cbmc && touch $@
.PHONY: prove
