# SPDX-License-Identifier: Apache-2.0
# Proofs (tests/proof/README.md). PROOF="a b" runs those only; prove-all adds the slow ones.
prove: $(B)/cbmc/bin/cbmc ## CBMC proofs, each with its negative twin (PROOF=NAME for one)
	@tests/proof/run $(B)/cbmc/bin $(B)/proof $(PROOF)
prove-all: $(B)/cbmc/bin/cbmc ## the same with the proofs marked slow
	@tests/proof/run $(B)/cbmc/bin $(B)/proof --all
$(B)/cbmc/bin/cbmc: tests/proof/fetch-cbmc
	@tests/proof/fetch-cbmc $(B)/cbmc && touch $@
.PHONY: prove prove-all
