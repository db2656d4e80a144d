"""MetaGenRL: a population of agents learns an objective by second-order gradients."""
