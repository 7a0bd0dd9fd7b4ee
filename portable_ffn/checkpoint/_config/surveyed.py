"""The model types whose code was surveyed: for these the general reading of `families` holds unless a row differs.

Each stands under the activation that it has where its config.json doesn't name one. Source: the model types and config
classes of transformers 5.24 (those without a feed-forward network among them do no harm here).
"""

from types import MappingProxyType

_BY_ACTIVATION = {
    "silu": """
        EvollaModel EvollaModel afmoe aimv2_text_model aimv2_vision_model align_vision_model aria_text axk1
        axk2 bailing_hybrid bamba beam blt_global_transformer blt_local_decoder blt_local_encoder blt_patcher
        chameleon cohere cohere2 cohere2_moe cohere_compass_text csm csm_depth_decoder_model cwm d_fine
        deepseek_ocr2_encoder deepseek_ocr2_text deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 deimv2
        dia_decoder dia_encoder diffllama doge dory dots1 dots3_note_audio_encoder dots3_note_text
        dots3_note_vision_encoder efficientnet emu3_text_model ernie4_5 ernie4_5_moe ernie4_5_vl_moe_text esmc
        eurobert evolla exaone exaone4 exaone4_5_vision exaone_moe falcon_h1 falcon_mamba flex_olmo flint
        gemma4_audio glm glm4 glm4_moe glm4_moe_lite glm4v_moe_text glm4v_moe_vision glm4v_text glm4v_vision
        glm5_next_text glm5_next_vision glm_image_text glm_moe_dsa glm_ocr_text glm_ocr_vision gpt_oss granite
        granite4_vision_text granite_docling_text granite_speech5_encoder granite_swa granitemoe
        granitemoe_swa granitemoehybrid granitemoeshared helium higgs_audio_v2 hrm_text hunyuan_v1_dense
        hunyuan_v1_moe hunyuan_vl_text hy_v3 hy_v4 hy_v4_vl_text hyperclovax idefics idefics2_perceiver
        inkling2_loop_text inkling2_text inkling_text internlm3 iquestcoder jamba jetmoe kimi_linear kolibri1
        kyutai_speech_to_text laguna lara_mini lasr_encoder llama llama4_text longcat_flash lw_detr mamba
        mamba2 mellum mimo_v2_flash minicpm3 minimax minimax_m2 minimax_m3_vl_text ministral ministral3
        mistral mistral4 mistral_large4_text mixtral mllama_text_model mobilevit mobilevitv2 molmo2_adapter
        molmo2_text moonshine_streaming moshi moshi_depth muse_glimmer_assistant muse_glimmer_text
        muse_spark_text nemotron_asr_streaming_encoder neucodec nomic_bert olmo olmo2 olmo3 olmo_hybrid olmoe
        ovis2_vision paddleocr_vl_text parakeet_encoder pe_audio_encoder pe_audio_video_encoder
        pe_video_encoder phi3 phi4_multimodal phi4_multimodal_audio phimoe pp_doclayout_v2 pp_doclayout_v3
        pp_doclayout_v4 pp_ocrv5_mobile_rec pp_ocrv5_server_rec pp_ocrv6_small_rec qwen2 qwen2_5_omni_talker
        qwen2_5_omni_text qwen2_5_omni_vision_encoder qwen2_5_vl_text qwen2_5_vl_vision qwen2_moe
        qwen2_vl_text qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next
        qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen3_vl_moe_text
        qwen3_vl_text qwen4_exp_text rf_detr rt_detr rt_detr_v2 sapiens2 sarvam_mla sarvam_moe seed_oss
        smollm3 solar_open stablelm step3p5 timesfm2_5 ultrabert unlimited_ocr_text vibevoice_diffusion
        voxtral_realtime_text wav2vec2-bert xcodec2 youtu zaya
    """,
    "gelu": """
        align_text_model altclip_text_model audio-spectrogram-transformer audioflamingo3_encoder autoformer
        bart beit bert bert-generation biogpt blenderbot blenderbot-small blip_2_qformer blip_2_vision_model
        blip_text_model blip_vision_model bridgetower bridgetower_text_model bros camembert canine
        chinese_clip_text_model clap_audio_model clap_text_model clvp_encoder convbert convnext convnextv2
        data2vec-audio data2vec-text data2vec-vision deberta deberta-v2 deepseek_ocr2_sam_vision_model deit
        dinat dinov2 dinov2_with_registers dinov3_convnext dinov3_vit distilbert donut-swin dpr dpt
        edgetam_mask_decoder edgetam_prompt_encoder edgetam_video_mask_decoder edgetam_video_prompt_encoder
        edgetam_vision_model electra eomt eomt_dinov3 ernie falcon flava_image_model flava_multimodal_model
        flava_text_model florence_vision focalnet git glm_image_vision glmasr_encoder glpn got_ocr2_vision
        gpt_neox gpt_neox_japanese gradium_phonon_tts groupvit_vision_model gte hiera hubert hunyuan_vl_vision
        hy_v4_vl_vision ibert idefics_vision ijepa informer inkling2_vision instructblip_qformer
        instructblip_vision_model instructblipvideo_qformer instructblipvideo_vision_model internvl_vision
        janus_vision_model janus_vqgan jina_embeddings_v3 kosmos_2_5_text_model kosmos_2_text_model layoutlm
        layoutlmv2 layoutlmv3 layoutxlm led lightglue lilt llama4_vision_model longformer luke lw_detr_vit
        lxmert marian markuplm maskformer-swin mbart megatron-bert mimi mimi_decoder mimi_encoder
        minimax_m3_vl_vision mlcd mlcd_vision_model mllama_vision_model modernbert modernbert-decoder
        moonshine_streaming_encoder moss_transcribe_diarize_audio mpnet mra muse_glimmer_vision
        muse_spark_audio muse_spark_vision musicgen_decoder musicgen_melody_decoder mvp
        nemotron3_5_transcribe_asr_audio nemotron3_5_transcribe_word_timestamp nemotron3_diarization_audio
        omniasr_audio openai-gpt patchtst pegasus pegasus_x perceiver pixio pixtral plbart poolformer
        pp_chart2table_vision pp_formulanet_text pp_formulanet_vision prophetnet pvt pvt_v2 qianfan_ocr_vision
        qwen2_5_omni_audio_encoder qwen2_audio_encoder qwen3_asr_encoder qwen3_omni_moe_audio_encoder radio
        rembert rf_detr_dinov2 roberta roberta-prelayernorm roc_bert roformer sam2_hiera_det_model
        sam2_mask_decoder sam2_prompt_encoder sam2_video_mask_decoder sam2_video_prompt_encoder
        sam2_vision_model sam3_lite_text_text_model sam3_tracker_mask_decoder sam3_tracker_prompt_encoder
        sam3_tracker_video_mask_decoder sam3_tracker_video_prompt_encoder sam3_vision_model sam3_vit_model
        sam_hq_prompt_encoder sam_hq_vision_model sam_prompt_encoder sam_vision_model segformer seggpt sew
        sew-d slanext_vision speecht5 splinter squeezebert swiftformer swin swin2sr swinv2 tapas
        time_series_transformer timesformer tipsv2_vision_model trocr tvp unispeech unispeech-sat
        unlimited_ocr_sam_vision_model vibevoice_acoustic_tokenizer vibevoice_acoustic_tokenizer_decoder
        vibevoice_acoustic_tokenizer_encoder videomae videomt videoprism_vision_model vilt visual_bert vit
        vit_mae vit_msn vitdet vitpose_backbone vjepa2 voxtral_encoder wav2vec2 wav2vec2-conformer wavlm
        whisper xglm xlm-roberta xlm-roberta-xl xlnet xmod yolos yoso zamba zamba2 zoedepth
    """,
    "gelu_tanh": """
        albert big_bird bigbird_pegasus clvp_decoder codegen cohere_compass_vision cosmos3_edge_vision
        diffusion_gemma_text embedding_gemma2_text fnet funnel gemma gemma2 gemma3_text gemma3n_text
        gemma4_text gemma4_unified_text gemma4_vision gpt-sw3 gpt2 gpt_bigcode gpt_neo gptj
        granite_docling_vision idefics2_vision idefics3_vision kimi_k25_vision kosmos_2_5_vision_model
        minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision molmo2_vision mt5 nystromformer
        paddleocr_vl_vision phi phi4_multimodal_vision pix2struct_text_model pix2struct_vision_model
        pocket_tts pocket_tts_audio_tokenizer pocket_tts_audio_tokenizer_decoder
        pocket_tts_audio_tokenizer_encoder qwen3_5_moe_vision qwen3_5_vision qwen3_omni_moe_vision_encoder
        qwen3_vl_moe_vision qwen3_vl_vision qwen4_exp_vision recurrent_gemma siglip2_text_model
        siglip2_vision_model siglip_text_model siglip_vision_model smolvlm_vision starcoder2 t5_gemma_module
        t5gemma2_decoder t5gemma2_text umt5 vaultgemma video_llama_3_vision vivit
    """,
    "quick_gelu": """
        altclip_vision_model chinese_clip_vision_model clip_text_model clip_vision_model clipseg_text_model
        clipseg_vision_model ernie4_5_vl_moe_vision git_vision_model groupvit_text_model imagegpt
        kosmos_2_vision_model metaclip_2_text_model metaclip_2_vision_model owlv2_text_model
        owlv2_vision_model owlvit_text_model owlvit_vision_model qwen2_vl_vision step3p5_vision
        unlimited_ocr_vision_encoder xclip_text_model xclip_vision_model
    """,
    "relu": """
        bit canary_decoder cohere_asr conditional_detr decision_transformer deformable_detr detr fsmt
        fun_asr_nano_encoder grounding-dino hgnet_v2 longt5 m2m_100 mask2former mm-grounding-dino mobilebert
        nemotron3_5_asr nemotron_asr_streaming nllb-moe opt parakeet_rnnt parakeet_tdt pop2piano pp_lcnet_v4
        pp_ocrv5_server_det reformer regnet resnet rt_detr_resnet sam3_detr_decoder sam3_detr_encoder
        sam3_geometry_encoder sam3_lite_text_detr_decoder sam3_lite_text_detr_encoder
        sam3_lite_text_geometry_encoder sam_hq_mask_decoder sam_mask_decoder seamless_m4t seamless_m4t_v2
        speech_to_text switch_transformers t5 table-transformer tipsv2_text_model udop videoprism_text_model
        vits
    """,
    "relu2": """
        arcee bitnet cosmos3_edge_text jais2 nanochat nemotron nemotron_h neomme persimmon
    """,
    "relu6": """
        mobilenet_v1 mobilenet_v2
    """,
    "hard_swish": """
        pp_lcnet pp_lcnet_v3 slanet
    """,
    "xielu": """
        apertus apertus1p5_text
    """,
    "prelu": """
        dab-detr uvdoc
    """,
}
# Those whose config names several activations, or none of its own: a frame of other configs, or fixed by the code.
_NONE_OF_ITS_OWN = """
    aimv2 align altclip apertus1p5 apertus1p5_vision_tokenizer aria audioflamingo3 aya_vision bark blip blip-2
    bloom blt bridgetower_vision_model canary chameleon_vqgan chinese_clip chmv2 clap clip clipseg clvp
    cohere2_vision cohere_compass colmodernvbert colpali colqwen2 cosmos3_edge cosmos3_omni cpmant ctrl cvt dac
    dbrx deepseek_ocr2 deepseek_ocr2_vision deepseek_vl deepseek_vl_hybrid depth_anything depth_pro dia
    diffusion_gemma dots3_note edgetam edgetam_video efficientloftr embedding_gemma2 emu3 emu3_vqgan encodec
    encoder-decoder ernie4_5_vl_moe esm esmfold2 exaone4_5 fast_vlm fastspeech2_conformer
    fastspeech2_conformer_hifigan fastspeech2_conformer_with_hifigan flaubert flava flava_image_codebook
    florence2 fun_asr_nano fuyu gemma3 gemma3n gemma3n_audio gemma3n_vision gemma4 gemma4_assistant
    gemma4_unified gemma4_unified_assistant gemma4_unified_audio gemma4_unified_vision glm46v glm4v glm4v_moe
    glm5_next glm_image glm_image_vqmodel glm_ocr glmasr glmga got_ocr2 granite4_vision granite_docling
    granite_speech granite_speech5_ctc granite_speech_encoder granite_speech_plus granite_speech_plus_encoder
    groupvit higgs_audio_v2_tokenizer hunyuan_vl hy_v4_vl hyperclovax_vision_v2 idefics2 idefics3
    idefics_perciever inkling2 inkling2_loop inkling_audio inkling_mm_model inkling_vision instructblip
    instructblipvideo internvl janus jev kimi_k25 kosmos-2 kosmos-2.5 lasr_ctc levit lfm2 lfm2_moe lfm2_vl lfm3
    lfm3_vl lfm3_vl_vision lighton_ocr llama4 llava llava_next llava_next_video llava_onevision maskformer
    metaclip_2 mgp-str minicpm_ocr minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 mistral_large4 mllama
    modernvbert molmo2 moonshine moss_transcribe_diarize mpt muse_glimmer muse_spark musicflamingo musicgen
    musicgen_melody nemo_speechlm nemotron3_5_transcribe_audio nemotron3_diarization nemotron_h_omni nougat
    omdet-turbo omniasr omniasr_ctc oneformer openai_privacy_filter ovis2 owlv2 owlvit paddleocr_vl paligemma
    parakeet_ctc patchtsmixer pe_audio pe_audio_video pe_video perception_lm pi0 pix2struct pp_chart2table
    pp_formulanet pp_ocrv5_mobile_det pp_ocrv6_medium_det pp_ocrv6_small_det pp_ocrv6_tiny_rec
    prompt_depth_anything qianfan_ocr qwen2_5_omni qwen2_5_omni_bigvgan qwen2_5_omni_dit qwen2_5_omni_thinker
    qwen2_5_omni_token2wav qwen2_5_vl qwen2_audio qwen2_vl qwen3_5 qwen3_5_moe qwen3_asr qwen3_omni_moe
    qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen4_exp rag rwkv sam sam2 sam2_video sam3 sam3_lite_text
    sam3_lite_text_mask_decoder sam3_mask_decoder sam3_tracker sam3_tracker_video sam3_video sam_hq
    sapiens2_head shieldgemma2 siglip siglip2 slanext smolvlm speech-encoder-decoder speecht5_hifigan step3p7
    superglue superpoint t5gemma t5gemma2 t5gemma2_encoder textnet timesfm timm_backbone timm_wrapper tipsv2
    tipsv2_dpt ultravbert univnet unlimited_ocr unlimited_ocr_vision upernet uvdoc_backbone vibevoice
    vibevoice_asr video_llama_3 video_llava videoprism vipllava vision-encoder-decoder vision-text-dual-encoder
    vitmatte vitpose voxtral voxtral_realtime voxtral_realtime_encoder wavtokenizer wavtokenizer_encoder xclip
    xcodec xlm xlstm
"""

DEFAULTS = MappingProxyType(
    {model: activation for activation, models in _BY_ACTIVATION.items() for model in models.split()},
)
SURVEYED = frozenset(DEFAULTS).union(_NONE_OF_ITS_OWN.split())
