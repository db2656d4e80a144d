"""What learned losses are compared with, and the protocol of all methods that train agents.

| modules | method | in tests of |
|---|---|---|
| `policy_gradient`, `own_period` | PPO, REINFORCE in EPG's inner loop | objectives; losses of EPG |
| `parallel_agents`, `off_policy_lives` | SAC, TD3 of TF-Agents, P agents at once | losses of EPG |
| `off_policy` | TD3, DDPG of TF-Agents, one agent | objectives of MetaGenRL |
| `maml`, `maml_*`, `linear_baseline` | MAML | losses of EPG |
| `rl2`, `recurrent_ppo`, `played_trials`, `rl2_lives` | RL², E-RL² | losses of EPG |
| `method` | the protocol, requests and curves | both |
| `inner_loop_method`, `lived_shards` | what several methods share | both |
"""
